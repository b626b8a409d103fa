package local

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plane"
)

// TestEachProgramIsProbed, except for the kubelet, which every node has. A program that
// accepts no connection does not answer.
func TestEachProgramIsProbed(t *testing.T) {
	refused := errors.New("refused")
	probes := Probes(func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	want := slices.DeleteFunc(plane.NewRecord(plane.Settings{}).Units(), func(unit string) bool {
		return unit == "kubelet.service"
	})
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(probes))); diff != "" {
		t.Errorf("probed units (-want +got):\n%s", diff)
	}
	for unit, probe := range probes {
		if err := probe(t.Context()); !errors.Is(err, refused) {
			t.Errorf("%s: %v", unit, err)
		}
	}
}

func TestCheck(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	}))
	if err := check(t.Context(), server.Client(), server.URL); err != nil {
		t.Error(err)
	}

	status = http.StatusServiceUnavailable
	err := check(t.Context(), server.Client(), server.URL)
	if err == nil || err.Error() != server.URL+": 503 service unavailable" {
		t.Errorf("a program that is not well: %v", err)
	}

	server.Close()
	if check(t.Context(), server.Client(), server.URL) == nil {
		t.Error("a program that is away is well")
	}
}
