package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Operations (RFC 1350, section 5; RFC 2347).
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOACK  = 6
)

// Error codes (RFC 1350, appendix; RFC 2347).
const (
	codeUndefined = 0
	codeNotFound  = 1
	codeAccess    = 2
	codeIllegal   = 4
)

// request is a read request, RRQ.
type request struct {
	name    string
	octet   bool
	options []option
}

// option is a name in lower case with its value, in the order of the packet.
type option struct{ name, value string }

var (
	errShort = errors.New("shorter than its operation wants")
	errWrite = errors.New("a request to write")
)

// operation is the first field of a packet, 0 if absent.
func operation(p []byte) int {
	if len(p) < 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(p))
}

// parseRequest reads RRQ: name, mode, and pairs of option and value, each ended
// by a zero. It ignores what follows the last complete pair, as some firmware
// pads.
func parseRequest(p []byte) (request, error) {
	switch operation(p) {
	case opRead:
	case opWrite:
		return request{}, errWrite
	default:
		return request{}, fmt.Errorf("operation %d is no request", operation(p))
	}

	words := bytes.Split(p[2:], []byte{0})
	words = words[:len(words)-1] // without what no zero ended
	if len(words) < 2 || len(words[0]) == 0 {
		return request{}, errShort
	}

	r := request{name: string(words[0]), octet: strings.EqualFold(string(words[1]), "octet")}
	for rest := words[2:]; len(rest) >= 2 && len(rest[0]) > 0; rest = rest[2:] {
		r.options = append(r.options, option{strings.ToLower(string(rest[0])), string(rest[1])})
	}

	return r, nil
}

// parseAck reads the number of the block that ACK is of.
func parseAck(p []byte) (uint16, error) {
	if operation(p) != opAck || len(p) < 4 {
		return 0, errShort
	}
	return binary.BigEndian.Uint16(p[2:]), nil
}

// parseError reads what the other side says in ERROR.
func parseError(p []byte) string {
	if len(p) < 4 {
		return "no reason"
	}
	text, _, _ := bytes.Cut(p[4:], []byte{0})
	return fmt.Sprintf("code %d, %.80q", binary.BigEndian.Uint16(p[2:]), text)
}

// formatError is ERROR.
func formatError(code uint16, text string) []byte {
	p := binary.BigEndian.AppendUint16(nil, opError)
	p = binary.BigEndian.AppendUint16(p, code)
	return append(append(p, text...), 0)
}

// formatOACK is OACK: the options that hold.
func formatOACK(options []option) []byte {
	p := binary.BigEndian.AppendUint16(nil, opOACK)
	for _, o := range options {
		p = append(append(p, o.name...), 0)
		p = append(append(p, o.value...), 0)
	}
	return p
}

// dataHeader is what goes before the bytes of a block in DATA.
func dataHeader(p []byte, block int64) {
	binary.BigEndian.PutUint16(p, opData)
	binary.BigEndian.PutUint16(p[2:], uint16(block)) // wraps to 0 after 65535
}
