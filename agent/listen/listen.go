// Package listen limits the connections of a listener. A host that opens many
// and reads nothing then keeps no other host from being served:
//
//	connection --owner--> places by host --decide--> admit, wait,
//	                                                 or close the oldest of the
//	                                                 host that has the most
package listen

import (
	"net"
	"net/netip"
	"sync"
)

// Owner returns the host that a connection from an address counts for.
type Owner func(netip.Addr) string

// Limit returns a listener that keeps at most all connections open. While there
// are places, any host may have them. After that, the host with the most
// connections gives its oldest one to a host that has fewer; among hosts with one
// connection each, a new host waits.
func Limit(l net.Listener, all int, owner Owner) net.Listener {
	limited := &limited{
		Listener: l,
		all:      all,
		owner:    owner,
	}
	limited.changed.L = &limited.mu
	return limited
}

type limited struct {
	net.Listener
	all   int
	owner Owner

	mu      sync.Mutex
	open    []*conn // the oldest first
	closed  bool
	changed sync.Cond // open has a place, or closed is set
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}

	accepted := &conn{
		Conn: c,
		host: l.owner(hostOf(c.RemoteAddr())),
	}
	accepted.release = sync.OnceFunc(func() { l.release(accepted) })
	if !l.admit(accepted) {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return accepted, nil
}

// Close implements [net.Listener].
func (l *limited) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// admit gives a connection a place, and waits for one if it has to. It returns
// false if the listener is closed before.
func (l *limited) admit(c *conn) bool {
	l.mu.Lock()
	for len(l.open) >= l.all && !l.closed {
		hosts := make([]string, len(l.open))
		for i, other := range l.open {
			hosts[i] = other.host
		}

		at, ok := decide(hosts, c.host)
		if !ok {
			l.changed.Wait()
			continue
		}

		// It is closed without the lock, as its owner may close it, too.
		oldest := l.open[at]
		l.mu.Unlock()
		_ = oldest.Close() // Its client hears of it, or has gone.
		l.mu.Lock()
	}
	defer l.mu.Unlock()

	if l.closed {
		return false
	}
	l.open = append(l.open, c)
	return true
}

// decide returns which of the connections of these hosts, the oldest first, has
// to make room for one more of host; false if it has to wait.
func decide(hosts []string, host string) (at int, ok bool) {
	count := map[string]int{host: 1} // as if it had its place
	for _, h := range hosts {
		count[h]++
	}

	most := 0
	for _, n := range count {
		most = max(most, n)
	}

	for i, h := range hosts {
		switch {
		case most == 1: // Each has one, and none has more than its share.
		case count[host] == most && h != host: // No other host gives more than it has.
		case count[h] == most:
			return i, true
		}
	}
	return 0, false
}

func (l *limited) release(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.open {
		if other == c {
			l.open = append(l.open[:i], l.open[i+1:]...)
			l.changed.Signal()
			return
		}
	}
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	host    string
	release func()
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// hostOf returns the address of a host, the zero Addr for one without.
func hostOf(addr net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}
