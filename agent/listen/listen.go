// Package listen limits the connections of a listener: for all hosts, and for
// each. A host that opens many and reads nothing then keeps no other host from
// being served.
package listen

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/netutil"
)

// Limit returns a listener that keeps at most all connections open, while
// others wait, and at most each of one host, and closes others. Each address
// counts as a host: on a LAN, all nodes are in one IPv6 network.
func Limit(l net.Listener, all, each int) net.Listener {
	return &limited{
		Listener: netutil.LimitListener(l, all),
		each:     each,
		open:     map[netip.Addr]int{},
	}
}

type limited struct {
	net.Listener
	each int

	mu   sync.Mutex
	open map[netip.Addr]int // connections by host
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		host := hostOf(c.RemoteAddr())
		if l.admit(host) {
			return &conn{Conn: c, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = c.Close() // It is not served.
	}
}

func (l *limited) admit(host netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] >= l.each {
		return false
	}
	l.open[host]++

	return true
}

func (l *limited) release(host netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[host]--
	if l.open[host] == 0 {
		delete(l.open, host)
	}
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
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
	return at.Addr().Unmap().WithZone("")
}
