package registry

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// hanging is a containerd that answers at most the version request. It counts
// requests.
func hanging(t *testing.T, version bool) (socket string, asked chan string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	var clear http.Protocols
	clear.SetUnencryptedHTTP2(true)
	asked = make(chan string, 16)
	server := &http.Server{
		Protocols: &clear,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			asked <- q.URL.Path
			if !version || !strings.HasSuffix(q.URL.Path, "/Version") {
				<-q.Context().Done()
				return
			}

			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = w.Write(make([]byte, 5))
			w.Header().Set("Grpc-Status", "0")
		}),
	}

	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })

	return socket, asked
}

const anImage = "registry.local/a@sha256:6a5d547248f7508056915aa05f3436e0d10f4509edc40cdb0175bb8719cf0ff0"

func TestHangingContainerdIsWaitedForOnce(t *testing.T) {
	socket, asked := hanging(t, false)
	r := New(socket)
	r.limits = limits{answer: 50 * time.Millisecond, work: time.Hour}

	for look := range 2 {
		r.Follow(nil)
		for range 3 {
			_, err := r.Image(t.Context(), anImage, "/a")
			if !errors.Is(err, errHangs) || errors.Is(err, ErrNotRunning) ||
				!strings.Contains(hint.Line(err), "hint: the agent restarts it after a minute") {
				t.Fatal(err)
			}
		}
		if n := len(asked); n != look+1 {
			t.Errorf("asked %d times in %d looks", n, look+1)
		}
	}
}

func TestRequestsToAHangingContainerdTimeOut(t *testing.T) {
	socket, _ := hanging(t, true)
	r := New(socket)
	r.limits.work = 50 * time.Millisecond

	d := ocispec.Descriptor{Digest: digest.FromString("a"), Size: 1}
	for _, test := range []struct {
		name string
		ask  func() error
	}{
		{"a call", func() error { _, err := r.Image(t.Context(), anImage, "/a"); return err }},
		{"unused images", func() error { return r.Keep(t.Context(), nil) }},
		{"a file, opened without a deadline", func() error {
			_, err := r.open(d, &file{})
			return err
		}},
		{"a transfer", func() error {
			ctx, s := connected(t, r, namespace)
			return s.explain(pull{session: s}.fetch(ctx, d))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			const want = "containerd hangs: no answer in 50ms"
			err := test.ask()
			if err == nil || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "hint") ||
				hint.Of(err) != "systemctl status containerd" ||
				fault.Of(err) != fault.RuntimeUnreachable {
				t.Errorf("%v, hint %s, code %s", err, hint.Of(err), fault.Of(err))
			}
		})
	}
}
