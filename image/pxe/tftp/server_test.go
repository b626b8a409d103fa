package tftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/loam-os/loam/test/tftp"
)

// line is one end of a way for packets, of which some are lost, come twice, or
// late.
type line struct {
	net.Conn // nil: of a connection only these are used
	in       chan []byte
	out      chan<- []byte
	deadline time.Time
	disturb  func(p []byte, deliver func([]byte))
	sent     int // packets
}

func (l *line) Write(p []byte) (int, error) {
	l.sent++
	l.disturb(bytes.Clone(p), func(p []byte) {
		select {
		case l.out <- p:
		default: // a full queue loses it
		}
	})
	return len(p), nil
}

func (l *line) Read(p []byte) (int, error) {
	timer := time.NewTimer(time.Until(l.deadline))
	defer timer.Stop()
	select {
	case got := <-l.in:
		return copy(p, got), nil
	case <-timer.C:
		return 0, os.ErrDeadlineExceeded
	}
}

func (l *line) ReadFrom(p []byte) (int, net.Addr, error) {
	n, err := l.Read(p)
	return n, nil, err
}

func (l *line) WriteTo(p []byte, _ net.Addr) (int, error) { return l.Write(p) }

func (l *line) SetDeadline(t time.Time) error     { l.deadline = t; return nil }
func (l *line) SetReadDeadline(t time.Time) error { l.deadline = t; return nil }
func (l *line) Close() error                      { return nil }

// pair are the two ends.
func pair(disturb func(p []byte, deliver func([]byte))) (a, b *line) {
	one := make(chan []byte, 64)
	two := make(chan []byte, 64)
	return &line{in: one, out: two, disturb: disturb}, &line{in: two, out: one, disturb: disturb}
}

// bad loses, doubles and delays one packet in a hundred each.
func bad(seed uint64) func(p []byte, deliver func([]byte)) {
	dice := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex

	return func(p []byte, deliver func([]byte)) {
		mu.Lock()
		n := dice.IntN(100)
		mu.Unlock()
		switch n {
		case 0:
		case 1:
			deliver(p)
			deliver(p)
		case 2:
			time.AfterFunc(3*time.Millisecond, func() { deliver(p) })
		default:
			deliver(p)
		}
	}
}

// TestALineThatLoses has clients with all kinds of terms get files over bad
// lines. Time is not real.
func TestALineThatLoses(t *testing.T) {
	for _, test := range []struct {
		name  string
		asked []option
		size  int
	}{
		{"nothing agreed", nil, 100_000},
		{"an empty file", nil, 0},
		{"as EDK2", []option{{"tsize", "0"}, {"blksize", "1468"}, {"windowsize", "4"}}, 3_000_000},
		{"as iPXE", []option{{"blksize", "1432"}, {"tsize", "0"}}, 1_000_000},
		{
			"a large window",
			[]option{{"blksize", "1428"}, {"windowsize", "16"}, {"timeout", "1"}},
			3_000_000,
		},
		{
			"more blocks than there are numbers",
			[]option{{"blksize", "8"}, {"windowsize", "16"}},
			8*65536 + 100,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := make([]byte, test.size)
				rand.NewChaCha8([32]byte{}).Read(want)
				ours, theirs := pair(bad(uint64(test.size)))
				s := Server{
					Owner: netip.Addr.String,
					Dial: func(netip.AddrPort) (net.Conn, error) {
						return ours, nil
					},
					Ended: func(Transfer) {},
				}

				var server sync.WaitGroup
				server.Go(func() {
					s.send(&place{ctx: t.Context()}, netip.AddrPort{}, "a",
						File{bytes.NewReader(want), int64(test.size)}, test.asked)
				})

				terms, _ := negotiate(test.asked, int64(test.size))
				began := time.Now()

				got, err := client.Client{
					Block:  terms.block,
					Window: terms.window,
				}.Get(theirs, nil, "a")
				if !bytes.Equal(got, want) || err != nil {
					t.Errorf("%d bytes, %v", len(got), err)
				}

				least := test.size/terms.block + 1
				if ours.sent > least+least/2+3 { // not all windows go twice
					t.Errorf("%d packets for %d blocks", ours.sent, least)
				}

				t.Logf("%v", time.Since(began))
				server.Wait()
			})
		})
	}
}

// TestAClientThatGoes ends a transfer without a client.
func TestAClientThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := pair(func([]byte, func([]byte)) {})
		var ended Transfer
		s := Server{
			Owner: netip.Addr.String,
			Dial: func(netip.AddrPort) (net.Conn, error) {
				return ours, nil
			},
			Ended: func(tr Transfer) { ended = tr },
		}

		s.send(&place{ctx: t.Context()}, netip.AddrPort{}, "a",
			File{bytes.NewReader(make([]byte, 1000)), 1000}, nil)
		if ended.Err == nil || ended.Took > time.Minute {
			t.Errorf("%+v", ended)
		}
	})
}

// TestServer asks a server over real sockets.
func TestServer(t *testing.T) {
	want := bytes.Repeat([]byte("loam"), 10_000)
	ended := make(chan Transfer, 10)
	s := &Server{
		Owner: netip.Addr.String,
		Files: map[string]File{"v1/a.efi": {bytes.NewReader(want), int64(len(want))}},
		Dial: func(to netip.AddrPort) (net.Conn, error) {
			return net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)},
				net.UDPAddrFromAddrPort(to))
		},
		Ended: func(tr Transfer) { ended <- tr },
	}

	port, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, port) }()

	// ask sends a request and returns the first answer, and where it came from.
	ask := func(request string) (net.PacketConn, net.Addr, []byte) {
		t.Helper()
		conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = conn.WriteTo([]byte(request), port.LocalAddr())
		p := make([]byte, 2048)
		n, from, err := conn.ReadFrom(p)
		if err != nil {
			t.Fatal(err)
		}

		return conn, from, p[:n]
	}

	for _, test := range []struct{ name, request, want string }{
		{
			"a file that is not there",
			"\x00\x01../etc/passwd\x00octet\x00",
			"\x00\x05\x00\x01no such file\x00",
		},
		{
			"a file of its own",
			"\x00\x02v1/a.efi\x00octet\x00",
			"\x00\x05\x00\x02files are only to be read here\x00",
		},
		{
			"text",
			"\x00\x01v1/a.efi\x00netascii\x00",
			"\x00\x05\x00\x04only mode octet is known here\x00",
		},
		{
			"only the size",
			"\x00\x01\\v1\\a.efi\x00octet\x00tsize\x000\x00",
			"\x00\x06tsize\x00" + strconv.Itoa(len(want)) + "\x00",
		},
	} {
		conn, from, got := ask(test.request)
		if string(got) != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		_, _ = conn.WriteTo(formatError(0, "enough"), from)
	}

	conn, from, got := ask("\x00\x01/v1/a.efi\x00octet\x00")
	var all []byte
	for {
		all = append(all, got[4:]...)
		_, _ = conn.WriteTo(append([]byte{0, opAck}, got[2:4]...), from)

		if len(got) < 4+defaultBlock {
			break
		}

		p := make([]byte, 2048)
		n, _, err := conn.ReadFrom(p)
		if err != nil {
			t.Fatal(err)
		}

		got = p[:n]
	}

	if !bytes.Equal(all, want) {
		t.Errorf("%d bytes", len(all))
	}
	if tr := <-ended; !errors.Is(tr.Err, ErrNotFound) || tr.Name != "../etc/passwd" {
		t.Errorf("ended %+v", tr)
	}
	if tr := <-ended; tr.Err != nil || tr.Size != int64(len(want)) || tr.Name != "v1/a.efi" {
		t.Errorf("ended %+v", tr)
	}

	conn.Close()
	cancel()

	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestOneHostHasOnlyItsShare(t *testing.T) {
	aliases := map[string]string{"192.0.2.70": "192.0.2.7", "192.0.2.71": "192.0.2.7"}
	s := Server{Owner: func(a netip.Addr) string { return cmp.Or(aliases[a.String()], a.String()) }}
	admit := func(client string) (*place, bool) {
		return s.admit(t.Context(), netip.MustParseAddrPort(client))
	}

	var first *place
	for port := range maxOfOneHost {
		p, _ := admit("192.0.2.7:" + strconv.Itoa(1+port))
		if p == nil {
			t.Fatalf("transfer %d is not admitted", port)
		}
		if port == 0 {
			first = p
		}
	}

	if p, known := admit("192.0.2.7:99"); p != nil || known {
		t.Error("one more than its share is admitted")
	}
	if p, _ := admit("192.0.2.70:1"); p != nil {
		t.Error("another address of the host is admitted")
	}
	if _, known := admit("192.0.2.7:1"); !known {
		t.Error("a request that comes twice is a second transfer")
	}
	if p, _ := admit("192.0.2.8:1"); p == nil {
		t.Error("another host is not admitted")
	}

	s.release(netip.MustParseAddrPort("192.0.2.7:1"), first)
	if p, _ := admit("192.0.2.7:1"); p == nil {
		t.Error("what has ended still counts")
	}
}

// TestInventedClientsTakeNoPlaceForLong: each packet of a flood is from another
// address, which never answers.
func TestInventedClientsTakeNoPlaceForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Server{Owner: netip.Addr.String}
		client := func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
		}

		var places []*place
		for i := range maxTransfers {
			p, _ := s.admit(t.Context(), client(i))
			if p == nil {
				t.Fatalf("transfer %d is not admitted", i)
			}
			places = append(places, p)
			time.Sleep(time.Second)
		}
		s.hear(places[0])

		honest, _ := s.admit(t.Context(), client(1000))
		if honest == nil {
			t.Fatal("a client finds no place beside clients that never answered")
		}
		for i, p := range places {
			if ended := p.ctx.Err() != nil; ended != (i == 1) {
				t.Errorf("transfer %d ended: %t", i, ended)
			}
		}
		if !errors.Is(context.Cause(places[1].ctx), errReplaced) {
			t.Error(context.Cause(places[1].ctx))
		}

		// The end of a transfer does not take the place from the next one of the
		// same client.
		if p, _ := s.admit(t.Context(), client(1)); p == nil {
			t.Fatal("the client does not come back")
		}
		s.release(client(1), places[1])
		if s.active[client(1)] == nil {
			t.Error("the place of the second transfer is gone")
		}

		for _, p := range s.active {
			s.hear(p)
		}
		if p, _ := s.admit(t.Context(), client(2000)); p != nil {
			t.Error("a client that answers lost its place")
		}
		for client, p := range s.active {
			s.release(client, p)
		}
	})
}
