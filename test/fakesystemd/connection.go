package fakesystemd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

// connection is one peer. It queues messages, so that a slow peer blocks no
// other.
type connection struct {
	stream net.Conn

	mu     sync.Mutex
	queue  [][]byte
	wake   chan struct{}
	serial uint32
}

// serve answers one peer until it goes.
func (m *Manager) serve(ctx context.Context, stream net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	defer stream.Close()

	in := bufio.NewReader(stream)
	if authenticate(in, stream) != nil {
		return // The end of the connection notifies the peer.
	}

	c := &connection{stream: stream, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	m.connections[c] = true
	m.mu.Unlock()

	defer func() {
		m.mu.Lock()
		delete(m.connections, c)
		m.mu.Unlock()
		close(c.wake)
	}()

	go c.write()
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		m.answer(c, call)
	}
}

// authenticate is the server's part of the exchange before the first message
// (D-Bus specification, "Authentication Protocol"): a peer says who it is, and
// is believed.
func authenticate(in *bufio.Reader, out io.Writer) error {
	if _, err := in.ReadByte(); err != nil { // A NUL, for credentials.
		return err
	}

	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}

		answer := "ERROR"
		switch words := strings.Fields(line); {
		case len(words) == 0:
		case words[0] == "BEGIN":
			return nil
		case words[0] == "AUTH" && len(words) == 1:
			answer = "REJECTED EXTERNAL"
		case words[0] == "AUTH", words[0] == "DATA":
			answer = "OK 00000000000000000000000000000000"
		case words[0] == "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD"
		}

		if _, err := io.WriteString(out, answer+"\r\n"); err != nil {
			return err
		}
	}
}

// answer does what a message asks for. Signals that come of it go before the
// reply.
func (m *Manager) answer(c *connection, call *dbus.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, err := m.do(call)
	defer m.collect()

	if call.Flags&dbus.FlagNoReplyExpected != 0 {
		return
	}

	reply := &dbus.Message{
		Type: dbus.TypeMethodReply,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
		},
		Body: body,
	}

	var failed *dbus.Error
	if errors.As(err, &failed) {
		reply.Type = dbus.TypeError
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(failed.Name)
		reply.Body = failed.Body
	}

	c.send(encode(reply))
}

// do carries out a call.
func (m *Manager) do(call *dbus.Message) ([]any, error) {
	object, _ := call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	of, _ := call.Headers[dbus.FieldInterface].Value().(string)
	member, _ := call.Headers[dbus.FieldMember].Value().(string)
	m.calls[member]++

	if of == propertiesInterface {
		return m.properties(object, member, call.Body)
	}

	if object != managerPath || of != managerInterface {
		return nil, &dbus.Error{
			Name: "org.freedesktop.DBus.Error.UnknownObject",
			Body: []any{fmt.Sprintf("Unknown object '%s'.", object)},
		}
	}

	name := ""
	if len(call.Body) > 0 {
		name, _ = call.Body[0].(string)
	}

	switch member {
	case "Subscribe", "Unsubscribe":
		return nil, nil
	case "Reload":
		m.reload()
		return nil, nil
	case "StartUnit", "StopUnit", "RestartUnit", "ReloadUnit":
		job, err := m.enqueue(strings.ToLower(strings.TrimSuffix(member, "Unit")), name)
		return []any{job}, err
	case "EnableUnitFiles":
		names, _ := call.Body[0].([]string)
		installs, changes, err := m.enable(names)
		return []any{installs, changes}, err
	case "DisableUnitFiles":
		names, _ := call.Body[0].([]string)
		changes, err := m.disable(names)
		return []any{changes}, err
	case "LoadUnit":
		return []any{m.load(name).path()}, nil
	case "GetUnit", "ResetFailedUnit":
		if m.units[name] == nil {
			return nil, failure("NoSuchUnit", "Unit %s not loaded.", name)
		}
		if member == "ResetFailedUnit" {
			return nil, nil
		}
		return []any{m.units[name].path()}, nil
	case "ListUnits":
		return []any{m.list(m.names())}, nil
	case "ListUnitsByNames":
		names, _ := call.Body[0].([]string)
		return []any{m.list(names)}, nil
	}

	return nil, &dbus.Error{
		Name: "org.freedesktop.DBus.Error.UnknownMethod",
		Body: []any{fmt.Sprintf("Unknown method %s or interface %s.", member, of)},
	}
}

// properties answers org.freedesktop.DBus.Properties.
func (m *Manager) properties(object dbus.ObjectPath, member string, args []any) ([]any, error) {
	u := m.byPath(object)
	if u == nil || len(args) == 0 {
		return nil, &dbus.Error{
			Name: "org.freedesktop.DBus.Error.UnknownObject",
			Body: []any{fmt.Sprintf("Unknown object '%s'.", object)},
		}
	}

	of, _ := args[0].(string)
	all := u.all(of)
	if member == "GetAll" {
		return []any{all}, nil
	}

	name, _ := args[len(args)-1].(string)
	value, ok := all[name]
	if !ok {
		return nil, &dbus.Error{
			Name: "org.freedesktop.DBus.Error.UnknownProperty",
			Body: []any{fmt.Sprintf("Unknown property or interface %s.", name)},
		}
	}

	return []any{value}, nil
}

func failure(name, format string, args ...any) error {
	return &dbus.Error{
		Name: "org.freedesktop.systemd1." + name,
		Body: []any{fmt.Sprintf(format, args...)},
	}
}

// emit sends a signal to every connection.
func (m *Manager) emit(object dbus.ObjectPath, name string, body ...any) {
	at := strings.LastIndexByte(name, '.')
	text := encode(&dbus.Message{
		Type:  dbus.TypeSignal,
		Flags: dbus.FlagNoReplyExpected,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(object),
			dbus.FieldInterface: dbus.MakeVariant(name[:at]),
			dbus.FieldMember:    dbus.MakeVariant(name[at+1:]),
		},
		Body: body,
	})

	for c := range m.connections {
		c.send(bytes.Clone(text))
	}
}

// encode is a message but for its serial number.
func encode(message *dbus.Message) []byte {
	if len(message.Body) > 0 {
		message.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(message.Body...))
	}
	var text bytes.Buffer
	if err := message.EncodeTo(&text, binary.LittleEndian); err != nil {
		panic(fmt.Sprintf("fake systemd: encode a message: %v", err)) // Of our own making.
	}
	return text.Bytes()
}

// send queues a message, whose serial number is in bytes 8 to 11.
func (c *connection) send(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	binary.LittleEndian.PutUint32(text[8:], c.serial)
	c.queue = append(c.queue, text)

	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write sends the queue, one message at a time, until wake is closed.
func (c *connection) write() {
	for range c.wake {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()

		for _, text := range queue {
			if _, err := c.stream.Write(text); err != nil {
				break // The reader sees that the peer is gone.
			}
		}
	}
}
