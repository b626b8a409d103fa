package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
)

// TestKilledProgramsLoseNoWrite kills etcd and the API server while a client
// writes all the time, and starts them again as systemd does: each write that was
// acknowledged is there.
func TestKilledProgramsLoseNoWrite(t *testing.T) {
	t.Parallel()
	m := newCluster(t)
	m.boot(t)
	m.prove(t) // From its next start, etcd gathers changes of its database.
	w := startWriter(t, m.admin)

	for _, unit := range []string{"etcd.service", "kube-apiserver.service", "etcd.service"} {
		w.await(t, 20)
		m.kill(unit)
		m.start(t, plane.Render(m.record, m.node), unit)
		m.awaitReady(t)
	}
	w.await(t, 20)
	w.check(t)
}

// kill kills the program of a unit, and waits until it has ended.
func (m *machine) kill(unit string) {
	p := m.running[unit]
	_ = p.cmd.Process.Kill() // It may have ended.
	<-p.exited
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// writer writes ConfigMaps, one after the other.
type writer struct {
	client *client
	// acknowledged gets the name of each one that the API server has accepted.
	acknowledged chan string
	end          context.CancelFunc
	names        []string
}

func startWriter(t testing.TB, c *client) *writer {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{client: c, acknowledged: make(chan string, 1<<16), end: cancel}
	go func() {
		defer close(w.acknowledged)
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("write-%d", i)
			_, err := c.do(ctx, http.MethodPost, configMaps,
				fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
			if err != nil {
				pause(ctx)
				continue
			}
			select {
			case w.acknowledged <- name:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { w.stop() })
	return w
}

// pause leaves the processors to what starts.
func pause(ctx context.Context) {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
}

// await waits for that many writes.
func (w *writer) await(t testing.TB, n int) {
	t.Helper()
	for range n {
		name, ok := <-w.acknowledged
		if !ok {
			t.Fatal("the writer has ended")
		}
		w.names = append(w.names, name)
	}
}

// stop ends the writer and returns the names of all that was acknowledged.
func (w *writer) stop() []string {
	w.end()
	for name := range w.acknowledged {
		w.names = append(w.names, name)
	}
	return w.names
}

// check ends the writer, and makes sure that all that was acknowledged is there.
func (w *writer) check(t testing.TB) {
	t.Helper()
	written := w.stop()
	a, err := w.client.do(t.Context(), http.MethodGet, configMaps, "")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatal(err)
	}

	found := map[string]bool{}
	for _, item := range list.Items {
		found[item.Metadata.Name] = true
	}
	for _, name := range written {
		if !found[name] {
			t.Errorf("of %d acknowledged writes, %s is lost", len(written), name)
		}
	}
}
