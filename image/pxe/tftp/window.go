package tftp

// window is how far a transfer is. Blocks count from 1; block 0 is the OACK, or
// with none of that the request itself.
type window struct {
	terms
	size int64

	// acked is the last block that the client has for certain, sent the last
	// that left.
	acked, sent int64

	// rewound is set while blocks are on their way that were sent twice.
	rewound bool
}

// last is the number of the last block, which is shorter than the others, if
// only empty.
func (w *window) last() int64 { return w.size/int64(w.block) + 1 }

func (w *window) done() bool { return w.acked == w.last() }

// next returns the range of blocks to send now. It is empty if the window waits
// for an ACK.
func (w *window) next() (from, to int64) {
	from = w.sent + 1
	to = min(w.acked+int64(w.window), w.last())
	w.sent = max(to, w.sent)
	return from, to
}

// rewind sends all unacknowledged blocks again.
func (w *window) rewind() {
	w.sent = w.acked
	w.rewound = true
}

// ack takes the number of a block, and reports whether it moves the window. A
// client that misses a block acknowledges the last before it (RFC 7440, section
// 4), and gets all from there again. But it also answers blocks that it has
// already, so an ACK never repeats a block that was sent twice: that would go
// on for ever (the "Sorcerer's Apprentice", RFC 1123, section 4.2.3.1). A
// timeout repairs it, as it does the loss of a window's first block.
func (w *window) ack(number uint16) bool {
	ahead := int64(number - uint16(w.acked))
	if ahead == 0 || w.acked+ahead > w.sent {
		return false
	}

	w.acked += ahead
	switch {
	case w.acked == w.sent:
		w.rewound = false
	case !w.rewound:
		w.rewind()
	}

	return true
}
