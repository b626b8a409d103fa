// Package ethernet is a network for a test: a hub, to which machines in QEMU
// are plugged, and network devices of namespaces that are the test's own.
// Nothing of the host's network is touched, and root is not needed.
//
// The hub is in the test's process. It joins QEMU, and tap devices in
// namespaces, and loses frames on request.
package ethernet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// maxFrame is more than an Ethernet frame with a virtual machine's offloads
// switched off.
const maxFrame = 65536

// Hub sends each frame that a port has to all other ports.
type Hub struct {
	t    testing.TB
	loss float64

	mu    sync.Mutex
	ports []port
	dice  *rand.Rand
}

// port is one end of a cable.
type port interface {
	Read(frame []byte) (int, error)
	Write(frame []byte) (int, error)
	Close() error
}

// New makes a hub that loses this part of all frames, the same ones each time
// that the same go through it.
func New(t testing.TB, loss float64) *Hub {
	return &Hub{t: t, loss: loss, dice: rand.New(rand.NewPCG(1, 2))}
}

// plug connects p until the test ends.
func (h *Hub) plug(p port) {
	h.mu.Lock()
	h.ports = append(h.ports, p)
	h.mu.Unlock()
	var end sync.WaitGroup
	end.Go(func() { h.forward(p) })

	h.t.Cleanup(func() {
		p.Close()
		end.Wait()
	})
}

func (h *Hub) forward(from port) {
	frame := make([]byte, maxFrame)
	for {
		n, err := from.Read(frame)
		if errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) {
			return
		}

		if err != nil {
			continue // QEMU is not there yet, or not any more
		}

		h.mu.Lock()
		for _, to := range h.ports {
			if to != from && h.dice.Float64() >= h.loss {
				_, _ = to.Write(frame[:n]) // a port that is not up loses it
			}
		}

		h.mu.Unlock()
	}
}

// Machine connects a machine to be, and returns its -netdev for QEMU. dir is a
// directory for sockets.
func (h *Hub) Machine(dir, id string) string {
	h.t.Helper()
	ours := filepath.Join(dir, "hub")
	theirs := filepath.Join(dir, "net")

	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: ours, Net: "unixgram"})
	if err != nil {
		h.t.Fatal(err)
	}

	h.plug(cable{conn, &net.UnixAddr{Name: theirs, Net: "unixgram"}})
	return fmt.Sprintf("dgram,id=%s,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s",
		id, theirs, ours)
}

// cable is QEMU's socket, a frame a datagram.
type cable struct {
	*net.UnixConn
	machine *net.UnixAddr
}

func (c cable) Write(frame []byte) (int, error) { return c.WriteToUnix(frame, c.machine) }
