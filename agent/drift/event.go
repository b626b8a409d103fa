package drift

import (
	"encoding/binary"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

// event is an inotify event: mask happened to the entry name of the directory
// with that watch descriptor, or to the directory itself if name is "".
type event struct {
	watch int32
	mask  uint32
	name  string
}

// parse returns the events that read(2) returned: struct inotify_event in host
// order, each followed by len bytes of name, padded with NULs (inotify(7)).
func parse(raw []byte) iter.Seq[event] {
	return func(yield func(event) bool) {
		for len(raw) >= unix.SizeofInotifyEvent {
			head := raw[:unix.SizeofInotifyEvent]
			rest := raw[unix.SizeofInotifyEvent:]
			size := uint64(binary.NativeEndian.Uint32(head[12:]))
			if size > uint64(len(rest)) {
				return // The kernel returns complete events only.
			}

			name, _, _ := strings.Cut(string(rest[:size]), "\x00")
			e := event{
				int32(binary.NativeEndian.Uint32(head)),
				binary.NativeEndian.Uint32(head[4:]),
				name,
			}
			if !yield(e) {
				return
			}

			raw = rest[size:]
		}
	}
}
