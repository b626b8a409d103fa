package listen

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// fake accepts what is put into it, until it is closed.
type fake struct {
	net.Listener
	from chan *end
}

func (f *fake) Accept() (net.Conn, error) {
	if e, ok := <-f.from; ok {
		return e, nil
	}
	return nil, net.ErrClosed
}

func (f *fake) Close() error { close(f.from); return nil }

type end struct {
	net.Conn
	from   string
	closed int
}

func (e *end) RemoteAddr() net.Addr { return address(e.from) }
func (e *end) Close() error         { e.closed++; return nil }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// owners are the hosts of addresses: on the link by MAC, behind a router by
// address, or by /64.
var owners = map[string]string{
	"192.0.2.66":      "52:54:00:00:00:66",
	"192.0.2.67":      "52:54:00:00:00:66",
	"192.0.2.68":      "52:54:00:00:00:66",
	"2001:db8::66":    "52:54:00:00:00:66",
	"fe80::66":        "52:54:00:00:00:66",
	"192.0.2.1":       "52:54:00:00:00:01",
	"198.51.100.1":    "198.51.100.1",
	"2001:db8:1::1":   "2001:db8:1::/64",
	"2001:db8:1::2":   "2001:db8:1::/64",
	"2001:db8:1::3":   "2001:db8:1::/64",
	"2001:db8:1::4:4": "2001:db8:1::/64",
}

func ownerOf(a netip.Addr) string { return owners[a.String()] }

// open are the connections that are open after these were accepted one after
// another, of hosts that do not hang up.
func open(t *testing.T, all int, from ...string) (open []string) {
	t.Helper()
	f := &fake{from: make(chan *end, len(from))}
	l := Limit(f, all, ownerOf)
	var ends []*end
	for _, address := range from {
		e := &end{from: address + ":1"}
		if netip.MustParseAddr(address).Is6() {
			e.from = "[" + address + "]:1"
		}
		ends = append(ends, e)
		f.from <- e
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}

	for i, e := range ends {
		switch e.closed {
		case 0:
			open = append(open, from[i])
		case 1:
		default:
			t.Errorf("%s is closed %d times", from[i], e.closed)
		}
	}
	return open
}

func TestOneHostDoesNotTakeAllPlaces(t *testing.T) {
	for _, test := range []struct {
		name string
		all  int
		from []string
		want []string
	}{
		{
			"while there is place, a host has what it wants", 3,
			[]string{"192.0.2.66", "192.0.2.66", "192.0.2.66"},
			[]string{"192.0.2.66", "192.0.2.66", "192.0.2.66"},
		},
		{
			"one host with many connections", 3,
			[]string{"192.0.2.66", "192.0.2.66", "192.0.2.66", "192.0.2.1"},
			[]string{"192.0.2.66", "192.0.2.66", "192.0.2.1"},
		},
		{
			"one host with many addresses, in both families", 5,
			[]string{
				"192.0.2.66", "192.0.2.67", "192.0.2.68", "2001:db8::66", "fe80::66",
				"192.0.2.1", "192.0.2.1",
			},
			[]string{"192.0.2.68", "2001:db8::66", "fe80::66", "192.0.2.1", "192.0.2.1"},
		},
		{
			"a /64 behind a router", 4,
			[]string{
				"2001:db8:1::1", "2001:db8:1::2", "2001:db8:1::3", "2001:db8:1::4:4",
				"198.51.100.1",
			},
			[]string{"2001:db8:1::2", "2001:db8:1::3", "2001:db8:1::4:4", "198.51.100.1"},
		},
		{
			"the largest wants more", 3,
			[]string{"192.0.2.1", "192.0.2.66", "192.0.2.67", "192.0.2.68", "192.0.2.66"},
			[]string{"192.0.2.1", "192.0.2.68", "192.0.2.66"},
		},
		{
			"a host wants as many as another has", 3,
			[]string{"192.0.2.66", "192.0.2.1", "192.0.2.66", "192.0.2.1"},
			[]string{"192.0.2.66", "192.0.2.66", "192.0.2.1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, open(t, test.all, test.from...)); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnHonestHostIsServedInAFlood has its connection open while another host
// opens any number, by all of its addresses.
func TestAnHonestHostIsServedInAFlood(t *testing.T) {
	from := []string{"192.0.2.66", "192.0.2.1"}
	for range 1500 {
		from = append(from, "192.0.2.66", "192.0.2.67", "fe80::66")
	}
	got := open(t, 512, from...)
	if len(got) != 512 || !slices.Contains(got, "192.0.2.1") {
		t.Errorf("%d open, %v of them of the honest host", len(got),
			slices.Contains(got, "192.0.2.1"))
	}
}

// TestANewHostWaits has hosts with one connection each: a new one takes none of
// theirs, and its place is the next that is free.
func TestANewHostWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{from: make(chan *end, 3)}
		l := Limit(f, 2, ownerOf)
		var first net.Conn
		for i, address := range []string{"192.0.2.1:1", "192.0.2.66:1"} {
			f.from <- &end{from: address}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = c
			}
		}

		accepted := make(chan error)
		f.from <- &end{from: "198.51.100.1:1"}
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		synctest.Wait()
		select {
		case err := <-accepted:
			t.Fatalf("a third connection has a place: %v", err)
		default:
		}

		// Closing twice gives one place back.
		for range 2 {
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-accepted; err != nil {
			t.Error(err)
		}

		f.from <- &end{from: "198.51.100.1:2"} // in the place of its own
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}

		if open := l.(*limited).open; len(open) != 2 {
			t.Errorf("%d open", len(open))
		}
	})
}

// TestTheEndOfAListenerIsNotWaitedFor closes a listener that waits for a place.
func TestTheEndOfAListenerIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{from: make(chan *end, 1)}
		l := Limit(f, 1, ownerOf)
		f.from <- &end{from: "192.0.2.1:1"}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}

		waiting := &end{from: "192.0.2.66:1"}
		f.from <- waiting
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) || waiting.closed != 1 {
			t.Errorf("error %v, the connection is closed %d times", err, waiting.closed)
		}
	})
}
