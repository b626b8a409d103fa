package local

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/test/files"
)

// fakeAPI answers like an API server that has one ConfigMap, with that record, and
// ends each watch at once. test/plane has the real one.
type fakeAPI struct {
	mu      sync.Mutex
	record  string
	watches int

	// busy is whether another program writes after each write of the node.
	busy   bool
	writes int

	// applied counts the Deployments that were applied, and refuses is whether they
	// are refused.
	applied int
	refuses bool

	// during is called while the ConfigMap is read, unless it is nil. conflicts is called
	// once before it is written, which is refused then.
	during, conflicts func()

	// node is the Node, and writers how many writers change it before the agent does.
	node    nodeObject
	writers int
}

// RoundTrip implements [http.RoundTripper].
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	answer := any(map[string]any{"items": []any{}})
	switch {
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/deployments/"):
		f.applied++
		if f.refuses {
			return refusal(http.StatusUnprocessableEntity, "spec.selector: field is immutable"), nil
		}
	case r.URL.Query().Has("watch"):
		f.watches++
		return reply(""), nil
	case strings.HasSuffix(r.URL.Path, "/nodes/node-1"):
		return f.nodes(r)
	case r.Method == http.MethodPatch && f.conflicts != nil:
		f.conflicts()
		f.conflicts = nil
		return refusal(http.StatusConflict, "the object has been modified"), nil
	case strings.HasSuffix(r.URL.Path, "/"+plane.RecordName):
		if f.during != nil {
			f.during()
		}
		var object published
		if r.Method == http.MethodPatch {
			err := json.NewDecoder(r.Body).Decode(&object)
			if err != nil {
				return nil, err
			}
			f.record = object.Data[plane.RecordField]
			f.writes++
		}
		version := 1 + f.writes
		if r.Method == http.MethodGet && f.busy {
			version += f.writes
		}
		object.Metadata.ResourceVersion = strconv.Itoa(version)
		object.Data = map[string]string{plane.RecordField: f.record}
		answer = object
	}

	text, err := json.Marshal(answer)
	return reply(string(text)), err
}

// nodes answers a request for the Node.
func (f *fakeAPI) nodes(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		if f.writers > 0 {
			f.writers--
			f.node.Metadata.ResourceVersion += "1"
		}
		var patch nodeObject
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			return nil, err
		}
		version := patch.Metadata.ResourceVersion
		if version != "" && version != f.node.Metadata.ResourceVersion {
			return refusal(http.StatusConflict, "the object has been modified"), nil
		}
		if patch.Metadata.Labels != nil {
			f.node.Metadata.Labels = patch.Metadata.Labels
		}
		if patch.Spec.Taints != nil {
			f.node.Spec.Taints = patch.Spec.Taints
		}
	}
	text, err := json.Marshal(f.node)
	return reply(string(text)), err
}

// refusal is the answer of a server that does not do what it is asked for.
func refusal(code int, message string) *http.Response {
	response := reply(`{"message": "` + message + `"}`)
	response.StatusCode = code
	return response
}

func reply(text string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}
}

// withAPI returns a node whose record has been published, its API server and its
// log.
func withAPI(t *testing.T, version string) (*fixture, *fakeAPI, *observer.ObservedLogs) {
	t.Helper()
	n := newNode(t, plane.Settings{Kubernetes: version})
	fake := &fakeAPI{}
	n.started(t, version, "3.7.3")
	n.API = func() (*api.Client, error) { return api.Over(fake), nil }

	own, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	fake.record = string(own.Text())
	err = n.Store.WritePublished(own)
	if err != nil {
		t.Fatal(err)
	}
	return n, fake, n.logs
}

// started makes the node one on which these versions have started.
func (n *fixture) started(t *testing.T, kubernetes, etcd string) {
	t.Helper()
	files.Write(t, filepath.Join(n.Root, plane.StateDirectory, "started"),
		"Kubernetes "+kubernetes+"\netcd Version: "+etcd+"\nGit SHA: 0\n")
}

// edit changes the record of the ConfigMap.
func (f *fakeAPI) edit(old, new string) { f.record = strings.Replace(f.record, old, new, 1) }

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

// TestTheLogHasHints: the log is where an operator sees why the cluster is not as
// its record says.
func TestTheLogHasHints(t *testing.T) {
	n, fake, logs := withAPI(t, "1.37.2")
	fake.edit("1.37.2", "1.37.99")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	defer running.Wait()
	defer cancel()

	for logs.FilterLevelExact(zap.WarnLevel).Len() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for _, line := range logs.FilterLevelExact(zap.WarnLevel).All() {
		text, _ := line.ContextMap()["error"].(string)
		if strings.Contains(text, "1.37.99; hint: set upgrade.repository") {
			return
		}
	}
	t.Errorf("the log has %v", logs.All())
}

// TestRefusalsKeepNothingElseBack: while the ConfigMap or an add-on is refused,
// the node watches, and puts back what was changed in the cluster.
func TestRefusalsKeepNothingElseBack(t *testing.T) {
	for name, row := range map[string]struct {
		refuse func(*fakeAPI)
		want   string
		// applied is how often the Deployment is applied: first, a moment later, and
		// after the interval of repairs.
		applied []int
	}{
		"nothing":       {func(*fakeAPI) {}, "", []int{1, 1, 2}},
		"the ConfigMap": {func(f *fakeAPI) { f.edit("1.37.2", "1.36.3") }, "the cluster runs", []int{1, 1, 2}},
		"a ConfigMap that is no record": {
			func(f *fakeAPI) { f.record = "{" }, "record.json", []int{1, 1, 2},
		},
		"an add-on": {func(f *fakeAPI) { f.refuses = true }, "immutable", []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			n, fake, logs := withAPI(t, "1.37.2")
			row.refuse(fake)
			uptime := time.Hour
			n.Uptime = func() time.Duration { return uptime }
			p := progress{pause: minRetry}

			for i, later := range []time.Duration{0, time.Second, repairInterval} {
				uptime += later
				err := n.cluster.session(t.Context(), nil, &p)
				if err != nil {
					t.Fatal(err)
				}
				state := n.State()
				if state.Ready != (row.want == "") || !strings.Contains(state.Problem, row.want) {
					t.Errorf("the state is %+v", state)
				}
				if fake.watches != i+1 || fake.applied != row.applied[i] {
					t.Errorf("%d watches, applied %d times, want %d and %d",
						fake.watches, fake.applied, i+1, row.applied[i])
				}
			}

			lines := logs.FilterLevelExact(zap.WarnLevel).Len()
			if (lines == 1) != (row.want != "") {
				t.Errorf("the log has %v", logs.All())
			}
		})
	}
}
