// Package tftp is a client as there are in firmware (RFC 1350, 2348, 7440):
// what comes in order is taken, the last block of a window and the last before
// a gap are acknowledged, and that again if nothing comes.
package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// Conn is a port of the client.
type Conn interface {
	ReadFrom(p []byte) (int, net.Addr, error)
	WriteTo(p []byte, to net.Addr) (int, error)
	SetReadDeadline(t time.Time) error
}

const (
	data, ack, refusal, oack = 3, 4, 5, 6
	// answerTimeout is for one answer, of tries in a row.
	answerTimeout = 2 * time.Second
	tries         = 20
)

// Client gets files in blocks and windows of this size.
type Client struct{ Block, Window int }

// Get gets a file of the server.
func (c Client) Get(conn Conn, server net.Addr, name string) ([]byte, error) {
	request := fmt.Appendf([]byte{0, 1},
		"%s\x00octet\x00tsize\x000\x00blksize\x00%d\x00windowsize\x00%d\x00",
		name, c.Block, c.Window)

	if c.Block == 512 && c.Window == 1 { // which need not be said
		request = fmt.Appendf([]byte{0, 1}, "%s\x00octet\x00", name)
	}

	var got []byte
	var from net.Addr // of the transfer: a port of its own
	next := uint16(1)
	unacked := 0
	last := request
	say := func(p []byte) error {
		unacked = 0
		last = p

		to := from
		if to == nil {
			to = server
		}

		_, err := conn.WriteTo(p, to)
		return err
	}

	if err := say(request); err != nil {
		return nil, err
	}

	p := make([]byte, 2048)
	for silent := 0; silent < tries; {
		if err := conn.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
			return nil, err
		}

		n, sender, err := conn.ReadFrom(p)
		if err != nil || n < 4 {
			silent++
			if err := say(last); err != nil {
				return nil, err
			}
			continue
		}

		if from != nil && sender != nil && from.String() != sender.String() {
			continue // of a request that was sent twice
		}

		silent = 0
		from = sender
		block := binary.BigEndian.Uint16(p[2:])
		switch operation := binary.BigEndian.Uint16(p); {
		case operation == refusal:
			return nil, fmt.Errorf("%s: %q", name, p[4:n])
		case operation == oack, operation == data && block != next:
			if err := say(binary.BigEndian.AppendUint16([]byte{0, ack}, next-1)); err != nil {
				return nil, err
			}
			continue
		}

		got = append(got, p[4:n]...)
		next++
		unacked++
		if end := n-4 < c.Block; end || unacked == c.Window {
			err := say(binary.BigEndian.AppendUint16([]byte{0, ack}, next-1))
			if err != nil || end {
				return got, err
			}
		}
	}

	return nil, errors.New(name + ": the server says nothing any more")
}
