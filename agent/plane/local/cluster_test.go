package local

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
)

// fakeAPI answers like an API server of that version that has one ConfigMap, with
// that record, and ends each watch at once. test/plane has the real one.
type fakeAPI struct {
	version string

	mu      sync.Mutex
	record  string
	watches int
}

// RoundTrip implements [http.RoundTripper].
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	answer := any(map[string]any{"items": []any{}})
	switch {
	case r.URL.Path == "/version":
		answer = map[string]string{"gitVersion": f.version}
	case r.URL.Query().Has("watch"):
		f.watches++
		return reply(""), nil
	case strings.HasSuffix(r.URL.Path, "/"+plane.RecordName):
		var object published
		if r.Method == http.MethodPatch {
			err := json.NewDecoder(r.Body).Decode(&object)
			if err != nil {
				return nil, err
			}
			f.record = object.Data[plane.RecordField]
		}
		object.Metadata.ResourceVersion = "1"
		object.Data = map[string]string{plane.RecordField: f.record}
		answer = object
	}

	text, err := json.Marshal(answer)
	return reply(string(text)), err
}

func reply(text string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}
}

// withAPI returns a node whose record has been published, its API server and its
// log.
func withAPI(t *testing.T, version string) (*Node, *fakeAPI, *observer.ObservedLogs) {
	t.Helper()
	n := newNode(t, plane.Settings{Kubernetes: version})
	fake := &fakeAPI{version: "v" + version}
	n.API = func() (*api.Client, error) { return api.Over(fake), nil }
	core, logs := observer.New(zap.InfoLevel)
	n.Log = zap.New(core)

	own, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	fake.record = string(own.Text())
	err = n.Store.WritePublished(own)
	if err != nil {
		t.Fatal(err)
	}
	return n, fake, logs
}

// TestAWatchThatEndsAtOnce: the API server may end each watch, and several
// programs may change the ConfigMap all the time.
func TestAWatchThatEndsAtOnce(t *testing.T) {
	n, fake, _ := withAPI(t, "1.37.2")
	ctx, cancel := context.WithTimeout(t.Context(), minRetry/2)
	defer cancel()
	n.Run(ctx)

	fake.mu.Lock()
	defer fake.mu.Unlock()
	if fake.watches != 1 {
		t.Errorf("%d watches in %s", fake.watches, minRetry/2)
	}
}
