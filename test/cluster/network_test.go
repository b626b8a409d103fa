package cluster

import (
	"fmt"
	"net"
	"testing"
)

func TestReservedPortsAreOfOneHost(t *testing.T) {
	t.Parallel()
	const each = 50
	hosts := []*host{{}, {}}
	taken := map[int]bool{}
	for range each {
		for _, h := range hosts {
			port, err := h.reservePort("127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			if taken[port] {
				t.Errorf("port %d is reserved twice", port)
			}
			taken[port] = true
		}
	}

	for _, h := range hosts {
		h.end()
	}
	for port := range taken {
		l, err := net.Listen("unix", fmt.Sprintf("@loam-port-%d", port))
		if err != nil {
			continue // Another process of tests has it already.
		}
		l.Close()
		return
	}
	t.Error("no port is free after the hosts have ended")
}
