package ethernet

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestTwoHosts has one host send a megabyte to another over a hub that loses
// frames.
func TestTwoHosts(t *testing.T) {
	if !Own(t) {
		return
	}

	h := New(t, 0.01)
	h.Device("a", netip.MustParsePrefix("192.0.2.1/24"))

	l, err := net.Listen("tcp", "192.0.2.1:80")
	if err != nil {
		t.Fatal(err)
	}

	var other net.Conn
	h.Apart("b", netip.MustParsePrefix("192.0.2.2/24"), func() (err error) {
		other, err = net.DialTimeout("tcp", "192.0.2.1:80", 10*time.Second)
		return err
	})

	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}

	want := bytes.Repeat([]byte("frame"), 200_000)
	go func() {
		_, _ = c.Write(want)
		c.Close()
	}()

	got, err := io.ReadAll(other)
	if !bytes.Equal(got, want) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
