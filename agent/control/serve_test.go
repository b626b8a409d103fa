package control_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/hint"
)

// post sends body over conn to the agent, as any program might.
func post(t *testing.T, conn net.Conn, path, body string) (status int, answer string) {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return conn, nil
		},
	}

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent"+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	return response.StatusCode, strings.TrimSpace(string(text))
}

func TestInvalidRequests(t *testing.T) {
	socket := start(t).Socket

	for _, test := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{
			name:   "well formed",
			path:   "/rollback",
			body:   `{"generation":"7"}`,
			status: 200,
			want:   `{"result":"applied","generation":"7"}`,
		},
		{
			name:   "invalid JSON",
			path:   "/apply",
			body:   "spec:",
			status: 400,
			want:   `{"error":"read request /apply: invalid character 's' looking for beginning of value","code":"failed"}`,
		},
		{
			name:   "nothing",
			path:   "/apply",
			status: 400,
			want:   `{"error":"read request /apply: EOF","code":"failed"}`,
		},
		{
			name:   "cut off",
			path:   "/apply",
			body:   `{"name":`,
			status: 400,
			want:   `{"error":"read request /apply: unexpected EOF","code":"failed"}`,
		},
		{
			name:   "two values",
			path:   "/apply",
			body:   `{} {}`,
			status: 400,
			want:   `{"error":"read request /apply: more than one JSON value","code":"failed"}`,
		},
		{
			name:   "an unknown field",
			path:   "/verify",
			body:   `{"fix":true}`,
			status: 400,
			want:   `{"error":"read request /verify: json: unknown field \"fix\"","code":"failed"}`,
		},
		{
			name:   "a field in a request without fields",
			path:   "/confirm",
			body:   `{"name":"x"}`,
			status: 400,
			want:   `{"error":"read request /confirm: json: unknown field \"name\"","code":"failed"}`,
		},
		{
			name:   "busy",
			path:   "/apply",
			body:   `{"name":"busy"}`,
			status: 409,
			want:   `{"error":"apply: another change is under way","code":"change-under-way"}`,
		},
		{
			name:   "an unknown path",
			path:   "/downgrade",
			body:   "{}",
			status: 404,
			want:   "404 page not found",
		},
		{
			name:   "the largest size",
			path:   "/rollback",
			body:   `{"generation":"` + strings.Repeat(" ", 8<<20-17) + `"}`,
			status: 200,
			want:   `{"result":"applied","generation":"` + strings.Repeat(" ", 8<<20-17) + `"}`,
		},
		{
			name:   "a byte too large",
			path:   "/apply",
			body:   `{"document":"` + strings.Repeat(" ", 8<<20-14) + `"}`,
			status: 413,
			want:   `{"error":"read request /apply: http: request body too large","code":"failed"}`,
		},
		{
			name:   "far too large",
			path:   "/apply",
			body:   strings.Repeat(" ", 32<<20),
			status: 413,
			want:   `{"error":"read request /apply: http: request body too large","code":"failed"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := net.Dial("unix", socket)
			must(t, err)
			status, got := post(t, conn, test.path, test.body)
			if status != test.status || got != test.want {
				t.Errorf("answer %d %.200s, want %d %.200s", status, got, test.status, test.want)
			}
		})
	}
}

// The client's context ends the waiting, not the apply.
func TestClientThatDoesNotWait(t *testing.T) {
	a := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() {
		_, err := a.Client.Apply(ctx, control.ApplyRequest{Name: "blocks"})
		waited <- err
	}()

	<-a.asked
	cancel()

	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := a.Client.Confirm(t.Context()); err != nil {
		t.Errorf("ask meanwhile: %v", err)
	}

	a.release <- "now"
	if got := <-a.ended; got != "done" {
		t.Errorf("the apply was %s", got)
	}
}

// Serve ends only after the requests under way, whose answers still arrive.
func TestAgentThatStops(t *testing.T) {
	a := start(t)
	waited := make(chan error)
	go func() {
		_, err := a.Client.Apply(t.Context(), control.ApplyRequest{Name: "blocks"})
		waited <- err
	}()

	<-a.asked
	a.stop()

	if err := <-waited; err == nil || err.Error() != "context canceled" {
		t.Errorf("answer %v, want the node's", err)
	}
	if err := <-a.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if got := <-a.ended; got != "canceled" {
		t.Errorf("the apply was %s", got)
	}

	_, err := a.Client.Confirm(t.Context())
	if err == nil || !strings.HasSuffix(hint.Text(err), "\nhint: systemctl status loam-agent") {
		t.Errorf("no agent: error %v, want the hint", err)
	}
}

// A failing listener is an error.
func TestListenerThatFails(t *testing.T) {
	listener, err := control.Listen(t.TempDir() + "/agent.sock")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := control.Serve(t.Context(), listener, fakeNode{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: error %v, want %v", err, net.ErrClosed)
	}
}
