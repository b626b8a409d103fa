package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

func TestEgress(t *testing.T) {
	node := echo(t)
	const port = 1 // only part of a name
	e := must(newEgress(port))(t)
	t.Cleanup(e.close)
	e.route("10.0.2.15:10250", node)

	for _, row := range []struct {
		name, address string
		code          int
	}{
		{"a guest's address leads to where QEMU forwards it", "10.0.2.15:10250", http.StatusOK},
		{"an address without a route is dialled as it is", node, http.StatusOK},
		{"a node that is not there is a bad gateway", closed(t), http.StatusBadGateway},
	} {
		t.Run(row.name, func(t *testing.T) {
			conn, in := connect(t, port, row.address, row.code)
			if row.code != http.StatusOK {
				return
			}

			fmt.Fprint(conn, "there and back")
			closeWrite(conn)

			if back, err := io.ReadAll(in); err != nil || string(back) != "there and back" {
				t.Errorf("%q came back, %v", back, err)
			}
		})
	}

	t.Run("the end of the proxy ends what goes through it", func(t *testing.T) {
		_, in := connect(t, port, node, http.StatusOK)
		e.close()
		if rest, err := io.ReadAll(in); len(rest) > 0 {
			t.Errorf("read %q, %v", rest, err)
		}
	})
}

// connect asks the proxy for a connection, as the API server does.
func connect(t *testing.T, port int, address string, code int) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", egressSocket(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}

	if answer.StatusCode != code {
		t.Fatalf("status %s, want %d", answer.Status, code)
	}

	return conn, in
}

// echo is the address of a server that sends back what it receives.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()

	t.Cleanup(func() {
		l.Close()
		<-done
	})

	return l.Addr().String()
}

// closed is an address where nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	h := &host{}
	t.Cleanup(h.end)
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(must(h.reservePort("127.0.0.1"))(t)))
}
