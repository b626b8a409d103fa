package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// network is one address family. fromGuest is this host as QEMU's user
// networking shows it to a guest (qemu-options, -netdev user); the API server
// advertises it, so that the service "kubernetes" works in pods of a guest.
type network struct {
	loopback, fromGuest, services string
}

var (
	ipv4 = network{"127.0.0.1", "10.0.2.2", "10.96.0.0/16"}
	ipv6 = network{"::1", "fec0::2", "fd00:10:96::/112"}
)

// networkOf is the network that the option Bind names.
func networkOf(bind string) (network, error) {
	switch bind {
	case "", ipv4.loopback:
		return ipv4, nil
	case ipv6.loopback:
		return ipv6, nil
	}
	return network{}, fmt.Errorf("bind to %s: only to %s or %s", bind, ipv4.loopback, ipv6.loopback)
}

// ReservePort returns a port of an address of loopback that no process listens on,
// and that no other caller gets, in any process, before release or the end of this
// process. It lies below the range that Linux uses for outgoing connections
// (ip_local_port_range, from 32768), so that none of these takes it while a server
// is stopped.
func ReservePort(ip string) (port int, release func(), err error) {
	for range 100 {
		port = 20000 + rand.IntN(12000)
		var reservation, l net.Listener
		// The name is abstract (unix(7)): it ends with its socket.
		reservation, err = net.Listen("unix", fmt.Sprintf("@loam-port-%d", port))
		if err != nil {
			continue
		}

		l, err = net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port, func() { reservation.Close() }, nil
		}
		reservation.Close()
	}
	return 0, nil, fmt.Errorf("no free port on %s: %w", ip, err)
}
