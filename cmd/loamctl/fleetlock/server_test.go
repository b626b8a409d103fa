package fleetlock

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/hint"
)

// open serves slots with the record in dir.
func open(t *testing.T, dir string, slots int) (server *httptest.Server, stop func()) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s, err := Open(root, slots, time.Now, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	mux := http.NewServeMux()
	s.Register(mux)
	server = httptest.NewServer(mux)
	stop = sync.OnceFunc(func() {
		server.Close()
		s.Close()
	})
	t.Cleanup(stop)
	return server, stop
}

// machine asks a server for a machine, by the client of the agent.
func machine(server *httptest.Server, id, group string) fleetlock.Server {
	return fleetlock.Server{
		URL:    server.URL,
		Client: fleetlock.Client{ID: id, Group: group},
		HTTP:   server.Client(),
	}
}

// TestTheClientAndTheServer has machines of two groups share a slot each, over a
// restart of the server.
func TestTheClientAndTheServer(t *testing.T) {
	dir := t.TempDir()
	server, stop := open(t, dir, 1)
	a := machine(server, "a", "default")
	b := machine(server, "b", "default")
	c := machine(server, "c", "line-3")

	full := func(err error) bool {
		return err != nil && strings.HasSuffix(err.Error(), "all slots of the group are taken")
	}
	ctx := t.Context()
	for range 2 {
		if err := a.Lock(ctx); err != nil {
			t.Errorf("a takes a slot: %v", err)
		}
	}
	if err := c.Lock(ctx); err != nil {
		t.Errorf("another group: %v", err)
	}
	if err := b.Lock(ctx); !full(err) {
		t.Errorf("b takes the slot of a: %v", err)
	}
	if err := b.Unlock(ctx); err != nil {
		t.Errorf("b gives back what it has not: %v", err)
	}

	stop()
	again, _ := open(t, dir, 1)
	b.URL = again.URL
	if err := b.Lock(ctx); !full(err) {
		t.Errorf("b takes the slot of a from a server that has started again: %v", err)
	}
	a.URL = again.URL
	for range 2 {
		if err := a.Unlock(ctx); err != nil {
			t.Errorf("a gives its slot: %v", err)
		}
	}
	if err := b.Lock(ctx); err != nil {
		t.Errorf("b takes the free slot: %v", err)
	}

	answer, err := http.Get(again.URL + ListPath)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), `"default":{"b":"`) ||
		!strings.Contains(string(text), `"line-3":{"c":"`) {
		t.Errorf("%v, lists %s", err, text)
	}
}

// TestARecordHasOneServer: two would give each slot twice.
func TestARecordHasOneServer(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	first, err := Open(root, 1, time.Now, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Open(root, 1, time.Now, io.Discard); err == nil {
		second.Close()
		t.Error("a second server opens it")
	} else if hint.Of(err) == "" {
		t.Errorf("%v has no hint", err)
	}

	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := Open(root, 1, time.Now, io.Discard)
	if err != nil {
		t.Fatalf("after that: %v", err)
	}
	next.Close()
}

// TestARecordOfNullIsEmpty: it is valid JSON.
func TestARecordOfNullIsEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, recordName), []byte("null"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, _ := open(t, dir, 1)
	if err := machine(server, "a", "default").Lock(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAMachineWritesNoLinesOfItsOwn into what the server prints.
func TestAMachineWritesNoLinesOfItsOwn(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var out strings.Builder
	s, err := Open(root, 1, time.Now, &out)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mux := http.NewServeMux()
	s.Register(mux)
	server := httptest.NewServer(mux)
	defer server.Close()

	a := machine(server, "\x1b[2Ja\nb of line-3 gives its turn\r", "default")
	if err := errors.Join(a.Lock(t.Context()), a.Unlock(t.Context())); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\r") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q", out.String())
	}
}

// TestRequestsOfTheSpecification has the example of the protocol, and what it
// says a server should check.
func TestRequestsOfTheSpecification(t *testing.T) {
	const example = `{
  "client_params": {
    "group": "default",
    "id": "c988d2509fdf5cdcbed39037c56406fb"
  }
}`
	server, _ := open(t, t.TempDir(), 1)
	for _, tt := range []struct {
		name, method, path, header, body string
		code                             int
		answer                           string
	}{
		{"the example", http.MethodPost, fleetlock.LockPath, "true", example, 200, ""},
		{"another machine", http.MethodPost, fleetlock.LockPath, "true",
			strings.Replace(example, "c988", "c989", 1), 409, `"kind":"failed_lock_semaphore_full"`},
		{"without the header", http.MethodPost, fleetlock.UnlockPath, "", example, 400,
			`"kind":"bad_request"`},
		{"without an ID", http.MethodPost, fleetlock.UnlockPath, "true",
			`{"client_params": {"group": "default"}}`, 400, "client_params.id"},
		{"without a group", http.MethodPost, fleetlock.UnlockPath, "true",
			`{"client_params": {"id": "a"}}`, 400, "client_params.group"},
		{"a group with a space", http.MethodPost, fleetlock.UnlockPath, "true",
			`{"client_params": {"id": "a", "group": "a b"}}`, 400, "client_params.group"},
		{"no JSON", http.MethodPost, fleetlock.LockPath, "true", "id=a", 400, "not JSON"},
		{"a GET", http.MethodGet, fleetlock.LockPath, "true", "", 405, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequest(tt.method, server.URL+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.header != "" {
				r.Header.Set(fleetlock.Header, tt.header)
			}
			answer, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != tt.code || !strings.Contains(string(text), tt.answer) {
				t.Errorf("%d %s %v, want %d %s", answer.StatusCode, text, err, tt.code, tt.answer)
			}
		})
	}
}

// slow is a client that does not read its answer until it may.
type slow struct {
	http.ResponseWriter
	writing, may chan struct{}
}

func (s slow) Write(b []byte) (int, error) {
	close(s.writing)
	<-s.may
	return s.ResponseWriter.Write(b)
}

// TestNoMachineWaitsForASlowReader has a client that does not read the list: other
// requests do not wait for it.
func TestNoMachineWaitsForASlowReader(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := Open(root, 1, time.Now, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	w := slow{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.list(w, nil)
	}()
	<-w.writing
	if !s.mu.TryLock() {
		t.Error("the server waits for the client")
	} else {
		s.mu.Unlock()
	}
	close(w.may)
	<-done
}
