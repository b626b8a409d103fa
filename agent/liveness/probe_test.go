package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/liveness"
)

// soon is for probes that should time out, late for all others.
const soon, late = 100 * time.Millisecond, time.Minute

// served returns the address of a server on listener. The end of the test waits
// until all clients have closed their connections.
func served(
	t *testing.T, listener net.Listener, protocols *http.Protocols, handler http.HandlerFunc,
) string {
	t.Helper()
	var guests sync.WaitGroup
	server := &http.Server{
		Handler:   handler,
		Protocols: protocols,
		ErrorLog:  log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				guests.Add(1)
			case http.StateClosed:
				guests.Done()
			}
		},
	}

	done := make(chan error)
	go func() { done <- server.Serve(listener) }()

	t.Cleanup(func() {
		left := make(chan struct{})
		go func() { guests.Wait(); close(left) }()
		select {
		case <-left:
		case <-time.After(time.Minute):
			t.Error("a connection stays open")
		}
		server.Close()
		<-done
	})

	return listener.Addr().String()
}

// raw returns the address of a server that reads a request, sends text and then
// nothing. The end of the test waits until all clients have closed their
// connections.
func raw(t *testing.T, listener net.Listener, text string) string {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, text)
			_, _ = io.Copy(io.Discard, conn) // until the other side closes
			conn.Close()
		}
	}()

	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

func tcp(t *testing.T) net.Listener { return listen(t, "tcp", "127.0.0.1:0") }

func socket(t *testing.T) net.Listener { return listen(t, "unix", filepath.Join(t.TempDir(), "s")) }

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// refused returns an address where nothing listens.
func refused(t *testing.T, listener net.Listener) string {
	t.Helper()
	listener.Close()
	return listener.Addr().String()
}

// check runs a probe that should return the error want, "" if none.
func check(t *testing.T, probe func(context.Context) error, want string) {
	t.Helper()
	limit := late
	if strings.HasSuffix(want, context.DeadlineExceeded.Error()) {
		limit = soon
	}

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	err := probe(ctx)
	if (want == "" && err != nil) ||
		(want != "" && (err == nil || !strings.Contains(err.Error(), want))) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestKubelet(t *testing.T) {
	answers := func(code int, body string) func(*testing.T) string {
		return func(t *testing.T) string {
			return served(t, tcp(t), nil, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/healthz" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
			})
		}
	}

	says := func(text string) func(*testing.T) string {
		return func(t *testing.T) string { return raw(t, tcp(t), text) }
	}

	const head = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct {
		name    string
		address func(*testing.T) string
		want    string
	}{
		{"well", answers(200, "ok"), ""},
		{
			"ill",
			answers(500, "[-]syncloop failed\nhealthz check failed\n"),
			`answers 500 Internal Server Error: "[-]syncloop failed\nhealthz check failed"`,
		},
		{"not ready yet", answers(503, ""), "answers 503"},
		{"a redirect is not followed", answers(302, ""), "answers 302"},
		{
			"an answer without end",
			answers(200, strings.Repeat("x", 1<<20)),
			"answers more than 65536 bytes",
		},
		{"nothing listens", func(t *testing.T) string {
			return refused(t, tcp(t))
		}, "connection refused"},
		{"a socket that says nothing", says(""), context.DeadlineExceeded.Error()},
		{
			"a socket that stops in the head",
			says(head + "Content-Le"),
			context.DeadlineExceeded.Error(),
		},
		{
			"a socket that stops in the body",
			says(head + "Content-Length: 2\r\n\r\no"),
			"read the answer: " + context.DeadlineExceeded.Error(),
		},
		{"a head without end", says(head + strings.Repeat("A: b\r\n", 1<<20)), "exceed"},
		{"garbage", says("\x00\x01garbage\r\n\r\n"), "malformed HTTP"},
		{"no address", func(*testing.T) string { return "a b" }, "kubelet at a b: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, liveness.Kubelet(test.address(t)), test.want)
		})
	}
}

// grpc answers a call as a gRPC server does; status is "" if none.
func grpc(message, status string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call, err := io.ReadAll(r.Body)
		if err != nil || string(call) != "\x00\x00\x00\x00\x00" || r.ProtoMajor != 2 ||
			r.Header.Get("Content-Type") != "application/grpc" ||
			r.URL.Path != "/containerd.services.version.v1.Version/Version" {
			http.Error(w, fmt.Sprint("not such a call: ", err), http.StatusBadRequest)
			return
		}

		w.Header().Set("Content-Type", "application/grpc")
		_, _ = io.WriteString(w, message)

		if status != "" {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", "about it")
		}
	}
}

func TestContainerd(t *testing.T) {
	var clear http.Protocols
	clear.SetUnencryptedHTTP2(true)
	answers := func(handler http.HandlerFunc) func(*testing.T) string {
		return func(t *testing.T) string { return served(t, socket(t), &clear, handler) }
	}

	says := func(text string) func(*testing.T) string {
		return func(t *testing.T) string { return raw(t, socket(t), text) }
	}

	for _, test := range []struct {
		name   string
		socket func(*testing.T) string
		want   string
	}{
		{"well", answers(grpc("\x00\x00\x00\x00\x07\n\x05v2.2.0", "0")), ""},
		{"ill", answers(grpc("", "14")), `answers gRPC status 14: "about it"`},
		{"an answer of headers only", answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "12")
		}), "answers gRPC status 12"},
		{
			"an answer without a status",
			answers(grpc("\x00\x00\x00\x00\x00", "")),
			"answers HTTP 200 OK, not gRPC",
		},
		{
			"HTTP but not gRPC",
			answers(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no", http.StatusBadGateway)
			}),
			"answers HTTP 502",
		},
		{
			"a call that hangs",
			answers(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			}),
			context.DeadlineExceeded.Error(),
		},
		{"an answer that stops", answers(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), "read the answer: " + context.DeadlineExceeded.Error()},
		{"nothing listens", func(t *testing.T) string {
			return refused(t, socket(t))
		}, "no such file or directory"},
		{"a socket that says nothing", says(""), context.DeadlineExceeded.Error()},
		{"a server of HTTP/1", says("HTTP/1.1 400 Bad Request\r\n\r\n"), "containerd at "},
		{"garbage", says(strings.Repeat("\x00\x00\x04garbage", 100)), "containerd at "},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, liveness.Containerd(test.socket(t)), test.want)
		})
	}
}

func TestProbesEndWithTheirContext(t *testing.T) {
	for name, probe := range map[string]func(context.Context) error{
		"kubelet":    liveness.Kubelet(raw(t, tcp(t), "")),
		"containerd": liveness.Containerd(raw(t, socket(t), "")),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := probe(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want %v", name, err, context.Canceled)
		}
	}
}
