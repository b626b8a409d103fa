package cluster

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// leaseServer has one Lease, and refuses to change it as often as refuses says.
type leaseServer struct {
	lease   *coordination.Lease
	refuses int
}

func (l *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodGet && l.lease == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
	case l.refuses > 0:
		l.refuses--
		w.WriteHeader(http.StatusInternalServerError)
		return
	default:
		lease, err := leaseIn(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		l.lease = lease
		l.lease.ResourceVersion += "1"
	}
	answer := l.lease.DeepCopy()
	answer.APIVersion, answer.Kind = "coordination.k8s.io/v1", "Lease"
	_ = json.NewEncoder(w).Encode(answer)
}

// leaseIn decodes a request's body: four bytes, and then the Lease in an envelope
// (k8s.io/apimachinery, runtime/serializer/protobuf).
func leaseIn(body io.Reader) (*coordination.Lease, error) {
	text, err := io.ReadAll(body)
	if err != nil || len(text) < 4 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(text[4:]); err != nil {
		return nil, err
	}
	lease := &coordination.Lease{}
	return lease, lease.Unmarshal(envelope.Raw)
}

// TestATurnIsRenewedAfterAnError: a Lease that was not written is not told of by the
// watch either.
func TestATurnIsRenewedAfterAnError(t *testing.T) {
	server := &leaseServer{}
	listening := httptest.NewServer(server)
	defer listening.Close()
	a, err := newAPI(&rest.Config{Host: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	now := noon
	s := &session{
		Cluster: New(Config{Hostname: "me"}, Env{Root: root, Now: func() time.Time { return now }}),
		api:     a,
		turns:   turns{name: "pool", seen: true},
	}
	s.node, s.offer = &core.Node{}, &offer{secret: "pool", serial: true, sum: "sum"}
	if ok, err := s.writeTurn(t.Context(), *s.offer); err != nil || !ok {
		t.Fatalf("take the turn: %v %v", ok, err)
	}

	server.refuses = 1
	now = now.Add(2 * turnRenew)
	if err := s.giveTurn(t.Context()); err == nil {
		t.Error("a Lease that was not written is no error")
	}
	if err := s.giveTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := server.lease.Spec.RenewTime; !at.Time.Equal(now) {
		t.Errorf("renewed at %s, and it is %s", at, now)
	}
}
