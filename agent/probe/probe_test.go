package probe_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/probe"
)

// registry answers with the status in its path: /404.
func registry(w http.ResponseWriter, r *http.Request) {
	status := map[string]int{"/404": 404, "/401": 401, "/500": 500, "/307": 307}[r.URL.Path]
	switch status {
	case 0:
		return
	case 307: // Nothing listens where it leads.
		w.Header().Set("Location", "http://127.0.0.1:1/")
	}
	w.WriteHeader(status)
}

// secure returns a server with TLS, and the file of its certificate.
func secure(t *testing.T) (server *httptest.Server, file string) {
	t.Helper()
	server = httptest.NewUnstartedServer(http.HandlerFunc(registry))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Handshakes fail here.
	server.StartTLS()
	t.Cleanup(server.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	return server, write(t, string(text))
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// closed returns the URL of a port where nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func TestReach(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(registry))
	t.Cleanup(plain.Close)

	server, ca := secure(t)
	for _, test := range []struct {
		name string
		urls []string
		cas  []string
		want string // in the error
	}{
		{name: "nothing to reach"},
		{name: "an answer", urls: []string{plain.URL}},
		{
			name: "any status is an answer",
			urls: []string{plain.URL + "/404", plain.URL + "/401", plain.URL + "/500"},
		},
		{name: "a redirect is an answer, and not followed", urls: []string{plain.URL + "/307"}},
		{
			name: "TLS with the certificate of a file",
			urls: []string{server.URL, plain.URL},
			cas:  []string{ca},
		},
		{
			name: "TLS with an unknown certificate",
			urls: []string{server.URL},
			want: "certificate signed by unknown authority",
		},
		{name: "a closed port", urls: []string{closed(t)}, want: "connection refused"},
		{
			name: "one of two is closed",
			urls: []string{closed(t), plain.URL},
			want: "connection refused",
		},
		{
			name: "a certificate that is not there",
			urls: []string{plain.URL},
			cas:  []string{"/nonexistent"},
			want: "read certificate authority: open /nonexistent: ",
		},
		{
			name: "a certificate that is none",
			urls: []string{plain.URL},
			cas:  []string{write(t, "x")},
			want: "has no certificate in PEM",
		},
		{name: "no URL", urls: []string{"http://a b"}, want: "reach registry: parse "},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := probe.Reach(t.Context(), config.Probe{URLs: test.urls, CACerts: test.cas})
			if (test.want == "" && err != nil) ||
				(test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want))) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestReachNamesEveryURL(t *testing.T) {
	one := closed(t)
	two := closed(t)
	err := probe.Reach(t.Context(), config.Probe{URLs: []string{one, two}})
	if err == nil || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two) {
		t.Errorf("error %v, want %s and %s", err, one, two)
	}
}

// hanging returns a server that accepts connections and never answers.
func hanging(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String()
}

func TestReachGivesUp(t *testing.T) {
	if err := probe.Reach(t.Context(), config.Probe{URLs: []string{hanging(t)}}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestReachEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := probe.Reach(ctx, config.Probe{URLs: []string{hanging(t)}}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
