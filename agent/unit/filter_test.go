package unit

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

// TestFilterTakesSignalsOut sends messages of both byte orders: godbus gets all
// but the signals that need no more handling, in the same order.
func TestFilterTakesSignalsOut(t *testing.T) {
	const object = dbus.ObjectPath("/org/freedesktop/systemd1/unit/a_2eservice")
	properties := map[string]dbus.Variant{"ActiveState": dbus.MakeVariant("active")}

	var stream bytes.Buffer
	send := func(order binary.ByteOrder, kind dbus.Type, name string, serial uint32, body ...any) {
		headers := map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(object),
			dbus.FieldInterface: dbus.MakeVariant(manager),
			dbus.FieldMember:    dbus.MakeVariant(name),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
		}
		if kind == dbus.TypeMethodReply {
			headers = map[dbus.HeaderField]dbus.Variant{
				dbus.FieldReplySerial: dbus.MakeVariant(serial),
				dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(body...)),
			}
		}
		message := dbus.Message{Type: kind, Headers: headers, Body: body}
		var text bytes.Buffer
		if err := message.EncodeTo(&text, order); err != nil {
			t.Fatal(err)
		}
		order.PutUint32(text.Bytes()[8:], serial)
		stream.Write(text.Bytes())
	}

	serial := uint32(0)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		send(order, dbus.TypeSignal, changedSignal, serial+1, "unit", properties, []string{})
		send(order, dbus.TypeMethodReply, "", serial+2, properties)
		send(order, dbus.TypeSignal, "JobRemoved", serial+3, uint32(1), object, "a.service", "done")
		send(order, dbus.TypeSignal, "Reloading", serial+4, true)
		send(order, dbus.TypeSignal, changedSignal, serial+5, "service", properties, []string{})
		send(order, dbus.TypeMethodReply, "", serial+6, "end")
		serial += 6
	}

	var handled []string
	here, there := net.Pipe()
	defer here.Close()
	f := newFilter(here, func(path dbus.ObjectPath, name string) bool {
		if path != object {
			t.Errorf("%s of %q", name, path)
		}
		handled = append(handled, name)
		return name != "JobRemoved"
	})
	go func() {
		defer there.Close()
		_, _ = there.Read(make([]byte, 64))
		_, _ = stream.WriteTo(there)
	}()
	if _, err := f.Write([]byte("BEGIN\r\n")); err != nil {
		t.Fatal(err)
	}

	var got []uint32
	for {
		message, err := dbus.DecodeMessage(f)
		if err != nil {
			break // The stream has ended.
		}
		got = append(got, message.Serial())
	}
	if diff := cmp.Diff([]uint32{2, 3, 6, 8, 9, 12}, got); diff != "" {
		t.Errorf("messages of godbus (-want +got):\n%s", diff)
	}

	once := []string{changedSignal, "JobRemoved", "Reloading", changedSignal}
	if diff := cmp.Diff(append(once, once...), handled); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

// TestFilterReadsNoFurtherThanAHeader has headers that end early.
func TestFilterReadsNoFurtherThanAHeader(t *testing.T) {
	message := dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/a")),
			dbus.FieldInterface: dbus.MakeVariant("a.b"),
			dbus.FieldMember:    dbus.MakeVariant("c"),
		},
	}
	var text bytes.Buffer
	if err := message.EncodeTo(&text, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}

	for n := range text.Len() {
		signalOf(text.Bytes()[:n], binary.LittleEndian)
	}
	if object, member := signalOf(text.Bytes(), binary.LittleEndian); object != "/a" ||
		member != "c" {
		t.Errorf("%q %q", object, member)
	}
}
