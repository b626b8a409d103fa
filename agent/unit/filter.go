package unit

import (
	"bufio"
	"encoding/binary"
	"net"

	"github.com/godbus/dbus/v5"
)

// filter is a connection to systemd that takes signals out of what godbus
// reads. systemd sends every signal to each connection of its private socket,
// ten and more for each job, and godbus decodes the properties in them, of
// which nothing is needed. Messages are laid out as in the D-Bus specification,
// "Message Format".
//
// It reads the stream in large pieces, while godbus reads each number and text
// of a message separately.
type filter struct {
	net.Conn
	in *bufio.Reader

	// handle is called with each signal, in the order of the messages and after
	// godbus has delivered the ones before. It reports whether the signal's
	// body is not needed.
	handle func(object dbus.ObjectPath, name string) bool

	// begun says that authentication is over and messages follow. It does not
	// change after that: one goroutine writes messages while another reads.
	begun bool
	// left is the number of bytes of the current message that godbus still has
	// to read.
	left int
}

// bufferSize has room for everything that systemd sends about a job.
const bufferSize = 64 << 10

func newFilter(stream net.Conn, handle func(dbus.ObjectPath, string) bool) *filter {
	return &filter{Conn: stream, in: bufio.NewReaderSize(stream, bufferSize), handle: handle}
}

// Write implements [io.Writer]. The line BEGIN ends authentication, before the
// first message is sent or read.
func (f *filter) Write(p []byte) (int, error) {
	if !f.begun {
		f.begun = string(p) == "BEGIN\r\n"
	}
	return f.Conn.Write(p)
}

// Read implements [io.Reader].
func (f *filter) Read(p []byte) (int, error) {
	if !f.begun || len(p) == 0 {
		return f.in.Read(p)
	}

	for f.left == 0 {
		size, done, err := f.next()
		if err != nil {
			return 0, err
		}
		if !done {
			f.left = size
		} else if _, err := f.in.Discard(size); err != nil {
			return 0, err
		}
	}

	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// The part of a message before its header fields, and a type of message.
const (
	fixedSize  = 16
	typeSignal = 4
)

// next looks at the next message. It returns its size, and whether it is a
// signal that needs no more handling.
func (f *filter) next() (size int, done bool, err error) {
	fixed, err := f.in.Peek(fixedSize)
	if err != nil {
		return 0, false, err
	}

	var order binary.ByteOrder = binary.LittleEndian
	if fixed[0] == 'B' {
		order = binary.BigEndian
	}
	fields := int(order.Uint32(fixed[12:]))
	size = fixedSize + (fields+7)&^7 + int(order.Uint32(fixed[4:]))
	if fixed[1] != typeSignal || fixedSize+fields > bufferSize {
		return size, false, nil
	}

	header, err := f.in.Peek(fixedSize + fields)
	if err != nil {
		return 0, false, err
	}

	object, member := signalOf(header, order)
	return size, f.handle(dbus.ObjectPath(object), member), nil
}

// Header fields.
const (
	fieldPath   = 1
	fieldMember = 3
)

// signalOf returns the fields PATH and MEMBER of a header. They are empty if a
// field has a type that no field should have.
func signalOf(header []byte, order binary.ByteOrder) (object, member string) {
	for at := fixedSize; at+4 <= len(header); at = (at + 7) &^ 7 {
		field := header[at]
		kind := string(header[at+1 : at+4]) // the variant's signature: its length, one type, a NUL
		at += 4

		length := 0
		switch {
		case kind == "\x01u\x00":
			at += 4
			continue
		case kind == "\x01g\x00" && at < len(header):
			length = int(header[at])
			at++
		case (kind == "\x01s\x00" || kind == "\x01o\x00") && at+4 <= len(header):
			length = int(order.Uint32(header[at:]))
			at += 4
		default:
			return "", ""
		}

		if length >= len(header)-at {
			return "", ""
		}
		text := header[at : at+length]
		at += length + 1

		switch field {
		case fieldPath:
			object = string(text)
		case fieldMember:
			member = string(text)
		}
	}
	return object, member
}
