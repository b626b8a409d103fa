package listen

import (
	"errors"
	"net"
	"testing"
)

// fake gives one end of a pipe for each address.
type fake struct {
	net.Listener
	from []string
	ends []*end
}

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

var errNoMore = errors.New("no more")

func (f *fake) Accept() (net.Conn, error) {
	if len(f.ends) == len(f.from) {
		return nil, errNoMore
	}
	e := &end{from: f.from[len(f.ends)]}
	f.ends = append(f.ends, e)
	return e, nil
}

// accepted are the addresses that are served, of hosts that do not hang up.
func accepted(t *testing.T, each int, from ...string) (served []string) {
	t.Helper()
	f := &fake{from: from}
	l := Limit(f, 512, each)
	for {
		c, err := l.Accept()
		if errors.Is(err, errNoMore) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		served = append(served, c.RemoteAddr().String())
	}

	closed := 0
	for _, e := range f.ends {
		closed += e.closed
	}
	if closed != len(from)-len(served) {
		t.Errorf("%d of %d connections closed, %d served", closed, len(from), len(served))
	}
	return served
}

func TestOneHostDoesNotTakeAllPlaces(t *testing.T) {
	many := []string{}
	for range 1500 {
		many = append(many, "192.0.2.66:1")
	}

	served := accepted(t, 4, append(many, "192.0.2.1:1")...)
	if len(served) != 5 || served[4] != "192.0.2.1:1" {
		t.Errorf("served %q", served)
	}
}

func TestAnAddressIsOneHostInBothFamilies(t *testing.T) {
	served := accepted(t, 1, "[2001:db8::1]:1", "[2001:db8::2]:1", "[::ffff:192.0.2.1]:1",
		"192.0.2.1:2", "[2001:db8::1]:2")
	if len(served) != 3 {
		t.Errorf("served %q", served)
	}
}

func TestAPlaceIsFreeAfterAConnection(t *testing.T) {
	f := &fake{from: []string{"192.0.2.1:1", "192.0.2.1:2"}}
	l := Limit(f, 1, 1)
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}

		// Closing twice gives one place back.
		for range 2 {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := l.(*limited); len(got.open) != 0 {
		t.Errorf("open: %v", got.open)
	}
}
