// Package tftp serves files over the Trivial File Transfer Protocol, to be read
// only: RFC 1350 in mode octet, with the options (RFC 2347) blksize (RFC 2348),
// tsize and timeout (RFC 2349) and windowsize (RFC 7440). What is lost is sent
// again, as often as it takes.
//
// There is no library for this. Type window is pure. A duplicate ACK does not
// make it send again, only silence does. Limits are per host and in all, and a
// client that takes nothing is cut off.
//
//	request --parseRequest--> name, options --negotiate--> terms
//	                                                         |
//	client <--DATA-- transfer: await, send <--next, ack-- window
//	   |                 ^
//	   +------ACK--------+   silence: rewind, and send again
package tftp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Limits, so that a client that asks for much leaves something for others. If
// all places are taken, a new client gets the place of the one that has been
// silent from the start for the longest: its address may be invented.
const (
	maxTransfers = 128
	maxOfOneHost = 4
)

// File is the content of a file.
type File struct {
	Content io.ReaderAt
	Size    int64
}

// Transfer is a finished transfer.
type Transfer struct {
	Client netip.AddrPort
	Name   string
	Size   int64
	Took   time.Duration

	// Err is nil if the client has the file, ErrNotFound if it does not exist.
	Err error
}

// ErrNotFound is a name that no file has.
var ErrNotFound = errors.New("no such file")

// errReplaced is a client that never said anything, whose place another one got.
var errReplaced = errors.New("silent, while others wait for a place")

// place is a transfer under way.
type place struct {
	host  string
	began time.Time
	heard bool // the client has said something
	// ctx ends with the transfer, and end ends it.
	ctx context.Context
	end context.CancelCauseFunc
}

// Server answers the requests that come to a port.
type Server struct {
	// Files are all that can be had, by name, without a slash at the start.
	Files map[string]File

	// Dial makes the connection for a transfer, from a port of its own to the
	// client.
	Dial func(client netip.AddrPort) (net.Conn, error)

	// Owner returns the host that an address counts for: a host may have several.
	Owner func(netip.Addr) string

	// Ended is called after each transfer, but not for a client that only asked
	// for the size of a file, or never answered while others waited.
	Ended func(Transfer)

	mu     sync.Mutex
	active map[netip.AddrPort]*place
}

// Serve answers until ctx ends, and waits for transfers in progress.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var transfers sync.WaitGroup
	defer transfers.Wait()

	p := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFrom(p)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			continue // The cable was pulled, and may be plugged in again.
		}

		client, err := netip.ParseAddrPort(from.String())
		if err != nil {
			continue
		}

		r, err := parseRequest(p[:n])
		if err != nil || !r.octet {
			if code, text := refusal(p[:n], err); code != 0 {
				_, _ = conn.WriteTo(formatError(code, text), from)
			}
			continue
		}

		name := strings.TrimLeft(strings.ReplaceAll(r.name, `\`, "/"), "/")
		file, ok := s.Files[name]
		if !ok {
			_, _ = conn.WriteTo(formatError(codeNotFound, "no such file"), from)
			s.Ended(Transfer{Client: client, Name: name, Err: ErrNotFound})
			continue
		}

		switch p, known := s.admit(ctx, client); {
		case known: // The request came twice.
		case p == nil:
			_, _ = conn.WriteTo(formatError(codeUndefined, "too many transfers, try again"), from)
		default:
			transfers.Go(func() {
				defer s.release(client, p)
				s.send(p, client, name, file, r.options)
			})
		}
	}
}

// refusal is the answer to a packet that is no request to read bytes; code 0 is
// no answer.
func refusal(p []byte, err error) (code uint16, text string) {
	switch {
	case errors.Is(err, errWrite):
		return codeAccess, "files are only to be read here"
	case err == nil:
		return codeIllegal, "only mode octet is known here"
	case operation(p) == opRead:
		return codeIllegal, err.Error()
	}
	return 0, ""
}

// send is one transfer from begin to end.
func (s *Server) send(
	p *place, client netip.AddrPort, name string, file File, options []option,
) {
	began := time.Now()
	conn, err := s.Dial(client)
	if err != nil {
		s.Ended(Transfer{
			Client: client,
			Name:   name,
			Size:   file.Size,
			Err:    err,
		})
		return
	}
	defer conn.Close()

	terms, agreed := negotiate(options, file.Size)
	t := transfer{
		conn:    conn,
		content: io.NewSectionReader(file.Content, 0, file.Size),
		buffer:  make([]byte, 4+terms.block),
		heard:   func() { s.hear(p) },
	}

	t.window = window{terms: terms, size: file.Size}
	if len(agreed) > 0 {
		t.oack = formatOACK(agreed)
	}

	err = t.run(p.ctx)
	if (errors.Is(err, errEnded) && t.window.acked == 0) || errors.Is(err, errReplaced) {
		return // A line for each invented client would be as bad as a place for it.
	}

	s.Ended(Transfer{
		Client: client,
		Name:   name,
		Size:   file.Size,
		Took:   time.Since(began),
		Err:    err,
	})
}

// admit notes a transfer to client, and returns its place, if there is one. A
// transfer that is under way is known.
func (s *Server) admit(ctx context.Context, client netip.AddrPort) (p *place, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.active[client] != nil {
		return nil, true
	}

	host := s.Owner(client.Addr())
	ofHost := 0
	for _, other := range s.active {
		if other.host == host {
			ofHost++
		}
	}

	if ofHost >= maxOfOneHost || (len(s.active) >= maxTransfers && !s.replace()) {
		return nil, false
	}

	if s.active == nil {
		s.active = map[netip.AddrPort]*place{}
	}

	p = &place{host: host, began: time.Now()}
	p.ctx, p.end = context.WithCancelCause(ctx)
	s.active[client] = p
	return p, false
}

// replace ends the oldest transfer to a client that has said nothing yet, if
// there is one.
func (s *Server) replace() bool {
	var oldest netip.AddrPort
	for client, p := range s.active {
		before := s.active[oldest]
		if !p.heard && (before == nil || p.began.Before(before.began)) {
			oldest = client
		}
	}

	p := s.active[oldest]
	if p == nil {
		return false
	}
	p.end(errReplaced)
	delete(s.active, oldest)
	return true
}

// hear notes that the client of a transfer is there.
func (s *Server) hear(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.heard = true
}

// release gives the place of a transfer back, unless another one has it.
func (s *Server) release(client netip.AddrPort, p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.end(nil)
	if s.active[client] == p {
		delete(s.active, client)
	}
}
