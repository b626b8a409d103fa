package cluster

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	core "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/files"
)

func TestReportIsFinal(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world)
		want bool
	}{
		{"a ready configuration", func(*world) {}, true},
		{"no configuration", func(w *world) { w.ready, w.status.Version = "", "" }, true},
		{"a configuration that is not ready", func(w *world) { w.ready = "" }, false},
		{"a unit that is starting", func(w *world) {
			w.status.Units = []status.Unit{{Settled: true}, {Settled: false}}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := runningNew()
			w.ready = "new"
			tt.edit(&w)
			if got := isFinal(w); got != tt.want {
				t.Error(got)
			}
		})
	}
}

// nodeServer is an API server with one Node. It records what is written.
type nodeServer struct {
	mu     sync.Mutex
	writes []string
	// events are the Events, as "Type Reason: Message", and conditions the
	// patches of the Node's status.
	events, conditions []string
}

func (n *nodeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes = append(n.writes, r.Method+" "+r.URL.Path)
	text, _ := io.ReadAll(r.Body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, &core.Event{})
		if e, is := object.(*core.Event); is && err == nil {
			n.events = append(n.events, e.Type+" "+e.Reason+": "+e.Message)
		}
	case strings.HasSuffix(r.URL.Path, "/status"):
		n.conditions = append(n.conditions, string(text))
	}

	node := annotated(appliedAnnotation, "new")
	node.APIVersion = "v1"
	node.Kind = "Node"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(node)
}

func TestReportIsWrittenOnce(t *testing.T) {
	c, server, wait := newReporter(t)
	w := runningNew()
	w.ready = "new"
	for range 3 {
		if _, err := c.step(t.Context(), &w); err != nil {
			t.Fatal(err)
		}
	}
	wait()

	want := []string{
		"PATCH /api/v1/nodes/node-1",
		"PATCH /api/v1/nodes/node-1/status",
		"POST /api/v1/namespaces/default/events",
	}
	slices.Sort(server.writes)
	if diff := cmp.Diff(want, server.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if w.reported != "new" || w.node.Annotations[appliedAnnotation] != "new" {
		t.Errorf("reported %q, Node %v", w.reported, w.node.Annotations)
	}
}

// newReporter returns a report controller and the API server that it writes to.
// The returned function waits for its Events.
func newReporter(t *testing.T) (c *reportController, server *nodeServer, wait func()) {
	t.Helper()
	root := files.Root(t)
	server = &nodeServer{}
	group := &sync.WaitGroup{}
	a := newTestAPI(t, server)
	return &reportController{
		api:      a,
		root:     root,
		events:   eventWriter{api: a, group: group, log: zap.NewNop()},
		refusals: &refusalRecord{},
		log:      zap.NewNop(),
	}, server, group.Wait
}

// TestNamesInTheClusterAreBounded has a document and a unit with codes for a
// terminal and with names of 1 MiB: the Event and the conditions still say what is
// wrong with them.
func TestNamesInTheClusterAreBounded(t *testing.T) {
	const codes = "\x1b[2J\u009b2J" // 8 bytes
	long := strings.Repeat("n", 1<<20)
	c, server, wait := newReporter(t)
	w := runningNew()
	w.status.Version = ""
	w.status.Refusal = status.NotApplied
	w.status.Error = &status.Error{Problem: "write /etc/" + codes + long + ": no room"}
	w.status.Units = []status.Unit{{Name: codes + long, Active: "failed", Sub: "failed"}}
	if _, err := c.step(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	c.events.write(w.node, w.now, event{core.EventTypeWarning, "FileMismatch",
		"repaired " + codes + long + " and " + long})
	wait()

	const name = "[2J 2J"
	cut := func(begin, end int) string {
		return strings.Repeat("n", begin) + "..." + strings.Repeat("n", end)
	}
	// A name has 256 bytes before its codes go.
	atPath := "write /etc/ " + name + cut(189-13, 63) + ": no room"
	want := []string{
		"Warning FileMismatch: repaired " + name + cut(189-8, 64) + " and " + cut(189, 64),
		"Warning OSCNotApplied: " + atPath,
	}
	slices.Sort(server.events)
	if diff := cmp.Diff(want, server.events); diff != "" {
		t.Errorf("events (-want +got):\n%.2000s", diff)
	}

	condition := atPath + ", " + name + cut(189-8, 64) + " is failed/failed"
	if len(server.conditions) != 1 || !strings.Contains(server.conditions[0], condition) ||
		len(server.conditions[0]) > 2000 {
		t.Errorf("conditions %.2000q, want %s", server.conditions, condition)
	}
}

// TestAMessageIsNoLongerThanAnEventTakes has an Event about more units than it has
// room for.
func TestAMessageIsNoLongerThanAnEventTakes(t *testing.T) {
	message := "restarted" + strings.Repeat(" a.service,", 200)
	got := eventOf(&core.Node{}, time.Time{}, event{message: message}).Message
	if len(got) > 1024 || !strings.HasSuffix(got, " ...") ||
		!strings.HasPrefix(message, strings.TrimSuffix(got, " ...")) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestAppliedIsAnnouncedOnceItIsProven(t *testing.T) {
	for _, tt := range []struct {
		name string
		// then is what becomes of the change.
		then func(s *status.Status)
		want []string
	}{
		{"it is still watched", func(*status.Status) {}, nil},
		{"it has proven itself", func(s *status.Status) { s.Change = nil },
			[]string{"Normal OSCApplied: the configuration is applied: generation 000003-c"}},
		{"it was taken back", func(s *status.Status) {
			s.Change = nil
			s.Generation = "000002-b"
			s.Version = ""
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, server, wait := newReporter(t)
			w := runningNew()
			w.ready = "new"
			w.status.Generation = "000003-c"
			w.status.Change = &status.Change{Good: "000002-b"}
			for range 2 {
				if _, err := c.step(t.Context(), &w); err != nil {
					t.Fatal(err)
				}
				tt.then(&w.status)
				w.status.Uptime += status.Duration(time.Second)
				w.ready = w.status.Version
			}
			wait()
			if diff := cmp.Diff(tt.want, server.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheClusterSeesWhyAConfigurationDoesNotRun holds what kubectl shows of the
// ways in which a configuration does not stay.
func TestTheClusterSeesWhyAConfigurationDoesNotRun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refusal status.Refusal
		err     status.Error
		reason  string
	}{
		{
			"its unit failed",
			status.Reverted,
			status.Error{
				Unit: "a.service",
				Problem: "generation 000003-c was taken back: unit a.service failed: exit-code, " +
					"exit code 1; its log ends: no such file",
				Hint: "`loam logs a.service`",
			},
			"OSCReverted",
		},
		{
			"its unit hangs",
			status.Reverted,
			status.Error{
				Unit: "a.service",
				Problem: "generation 000003-c was taken back: unit a.service is activating/start " +
					"after 3m0s",
				Hint: "`loam logs a.service`",
			},
			"OSCReverted",
		},
		{
			"the disk is full",
			status.NotApplied,
			status.Error{
				Problem: "write generation 000003-c: no space left on device",
				Hint:    "free room on the state partition",
			},
			"OSCNotApplied",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, server, wait := newReporter(t)
			w := runningNew()
			w.ready = ""
			w.status.Phase = status.Failed
			w.status.Generation = "000002-b"
			w.status.Version = ""
			w.status.Offered = w.pending.sum
			w.status.Refused = true
			w.status.Refusal = tt.refusal
			w.status.Error = &tt.err
			for range 2 { // It is told of once.
				if _, err := c.step(t.Context(), &w); err != nil {
					t.Fatal(err)
				}
			}
			wait()

			want := []string{"Warning " + tt.reason + ": " + tt.err.String()}
			if diff := cmp.Diff(want, server.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, part := range []string{
				`"status":"False"`, `"reason":"` + tt.reason + `"`, "000003-c",
			} {
				if len(server.conditions) == 0 || !strings.Contains(server.conditions[0], part) {
					t.Errorf("no %s in %q", part, server.conditions)
				}
			}
		})
	}
}
