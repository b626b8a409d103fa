package networkd_test

import (
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/container"
)

// Messages and options of DHCPv6 (RFC 9915, sections 7.3 and 21).
const (
	solicit, advertise, reply = 1, 2, 7

	optionClientID, optionServerID, optionIANA, optionIAAddress = 1, 2, 3, 5
)

// serveDHCP6 gives 2001:db8:6::66 to every client.
func serveDHCP6(t *testing.T, c *container.Container) {
	t.Helper()
	conn := inNetwork(t, c, func() (net.PacketConn, error) {
		i, err := net.InterfaceByName("peer")
		if err != nil {
			return nil, err
		}
		return net.ListenMulticastUDP("udp6", i,
			&net.UDPAddr{IP: net.ParseIP("ff02::1:2"), Port: 547})
	})

	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })

	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := answerDHCP6(buffer[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from) // The client asks again.
			}
		}
	}()
}

func answerDHCP6(question []byte) []byte {
	if len(question) < 4 {
		return nil
	}

	kind := byte(reply)
	if question[0] == solicit {
		kind = advertise
	}

	answer := slices.Concat([]byte{kind}, question[1:4],
		option6(optionServerID, []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}))
	for rest := question[4:]; len(rest) >= 4; {
		code := binary.BigEndian.Uint16(rest)
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if len(rest) < 4+size {
			return nil
		}

		value := rest[4 : 4+size]
		rest = rest[4+size:]

		switch code {
		case optionClientID:
			answer = append(answer, option6(optionClientID, value)...)
		case optionIANA:
			times := []byte{0, 0, 0x0e, 0x10, 0, 0, 0x1c, 0x20}
			address := slices.Concat(net.ParseIP("2001:db8:6::66"), times)
			answer = append(answer,
				option6(optionIANA,
					slices.Concat(value[:4], times, option6(optionIAAddress, address)))...)
		}
	}

	return answer
}

func option6(code uint16, value []byte) []byte {
	head := binary.BigEndian.AppendUint16(nil, code)
	return append(binary.BigEndian.AppendUint16(head, uint16(len(value))), value...)
}

// inNetwork listens in the network at the other end of the wire, on a thread
// that ends with the network.
func inNetwork(
	t *testing.T, c *container.Container, listen func() (net.PacketConn, error),
) net.PacketConn {
	t.Helper()
	type result struct {
		conn net.PacketConn
		err  error
	}

	made := make(chan result)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread is in another network now.
		ns, err := os.Open(c.Peer())
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}

		if err != nil {
			made <- result{nil, err}
			return
		}

		conn, err := listen()
		made <- result{conn, err}
	}()

	r := <-made
	if r.err != nil {
		t.Fatal(r.err)
	}

	return r.conn
}
