package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Times to wait for an ACK. A client on the same network answers within a
// millisecond, firmware that is busy writing to its screen after some hundred.
const (
	firstWait = time.Second
	leastWait = 50 * time.Millisecond
	mostWait  = 4 * time.Second
	// tries is how often a window is sent to a client that says nothing.
	tries = 10
)

// errEnded is a client that wants no more: it only asked for the size, or has
// given up.
var errEnded = errors.New("the client ended it")

// transfer is a file on its way to one client.
type transfer struct {
	conn    net.Conn
	content io.ReaderAt
	window  window
	oack    []byte // nil if none
	clock   roundTrip
	buffer  []byte
	// heard is called when the client says something.
	heard func()
}

// run sends until the client has all. Nothing but silence of the client, its
// ERROR, or ctx ends it earlier.
func (t *transfer) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = t.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	opened := t.oack == nil // block 0 has been acknowledged
	for silent := 0; !t.window.done() && silent < tries; {
		sent := time.Now()
		err := t.send(opened)
		if err == nil {
			err = t.conn.SetReadDeadline(sent.Add(t.wait(silent)))
		}

		if err == nil {
			err = t.await(&opened)
		}

		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			silent++
			t.window.rewind()
		case errors.Is(err, unix.ECONNREFUSED) && t.window.sent == t.window.last():
			return nil // It has all, has closed its port, and its last ACK was lost.
		case err != nil:
			return err
		case silent == 0:
			t.clock.measured(time.Since(sent))
		}

		if err == nil {
			silent = 0
			t.heard()
		}
	}

	if !t.window.done() {
		return fmt.Errorf("no answer to block %d of %d", t.window.acked+1, t.window.last())
	}

	return nil
}

// send sends OACK, or what the window has room for.
func (t *transfer) send(opened bool) error {
	if !opened {
		_, err := t.conn.Write(t.oack)
		return lost(err)
	}

	from, to := t.window.next()
	for block := from; block <= to; block++ {
		dataHeader(t.buffer, block)
		n, err := t.content.ReadAt(t.buffer[4:], (block-1)*int64(t.window.block))
		if err != nil && !errors.Is(err, io.EOF) {
			_, _ = t.conn.Write(formatError(codeUndefined, "the server cannot read the file"))
			return fmt.Errorf("read block %d: %w", block, err)
		}
		if _, err := t.conn.Write(t.buffer[:4+n]); lost(err) != nil {
			return err
		}
	}

	return nil
}

// await reads until the client says something that is news.
func (t *transfer) await(opened *bool) error {
	p := make([]byte, 128)
	for {
		n, err := t.conn.Read(p)
		if err != nil {
			return err
		}
		if operation(p[:n]) == opError {
			return fmt.Errorf("%w: %s", errEnded, parseError(p[:n]))
		}

		number, err := parseAck(p[:n])
		switch {
		case err != nil:
		case !*opened && number == 0:
			*opened = true
			return nil
		case *opened && t.window.ack(number):
			return nil
		}
	}
}

// wait is how long an answer is waited for: what the client asked for, or what
// it takes, longer each time.
func (t *transfer) wait(silent int) time.Duration {
	if t.window.timeout > 0 {
		return t.window.timeout
	}
	return min(t.clock.wait()<<min(silent, 6), mostWait)
}

// lost is nil for a packet that the queue of the network device had no room
// for: it is one more that is lost.
func lost(err error) error {
	if errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}
