package rollout

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
)

const edgeSecret = secretsPath + "/gardener-node-agent-edge"

// clusterAPI is a fakeAPI that lists its Leases, and its Nodes, which are Ready.
type clusterAPI struct{ fakeAPI }

// under returns the objects under a path, by name.
func (c clusterAPI) under(path string) []kubeconfig.Object {
	var all []kubeconfig.Object
	for key, text := range c.fakeAPI {
		name, ok := strings.CutPrefix(key, path+"/")
		if !ok {
			continue
		}
		var o kubeconfig.Object
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			panic(err)
		}
		o.Metadata.Name = name
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b kubeconfig.Object) int {
		return strings.Compare(a.Metadata.Name, b.Metadata.Name)
	})
	return all
}

// List implements [API].
func (c clusterAPI) List(_ context.Context, path, _ string) ([]kubeconfig.Object, error) {
	return c.under(path), nil
}

// Table implements [API]. No Node is pinned.
func (c clusterAPI) Table(
	_ context.Context, path, selector string, details bool,
) (kubeconfig.Table, error) {
	var t kubeconfig.Table
	t.ColumnDefinitions = []struct{ Name string }{{"Name"}, {"Status"}}
	if strings.Contains(selector, pinnedLabel) {
		return t, nil
	}
	for _, o := range c.under(path) {
		row := kubeconfig.Row{Cells: []any{o.Metadata.Name, "Ready"}}
		if details {
			row.Object = o
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// TestPlanAndStatusSayWhyAllStand compares them with what each node decides.
func TestPlanAndStatusSayWhyAllStand(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	turn := func(machine, node string, since time.Duration) turns.Holder {
		return turns.Holder{
			ID:      machine,
			Machine: machine,
			Node:    node,
			Target:  "new",
			Class:   turns.Kubelet,
			Since:   now.Add(-since),
		}
	}
	const forget = "`loamctl rollout forget edge MACHINE` takes the turn of a machine that is gone"
	const resume = "`loamctl rollout resume edge` lets as many more fail"

	for _, tt := range []struct {
		name     string
		ledger   func(l *turns.Ledger)
		policy   string
		decision turns.Verdict
		want     []string
	}{
		{
			name:     "all is well",
			ledger:   func(l *turns.Ledger) { l.Holders["m-1"] = turn("m-1", "node-1", 9*time.Minute) },
			decision: turns.Take,
			want:     []string{},
		},
		{
			name:     "a turn is overdue",
			ledger:   func(l *turns.Ledger) { l.Holders["m-1"] = turn("m-1", "node-1", 11*time.Minute) },
			decision: turns.Stop,
			want: []string{
				"no node may begin: 1 have their turn for too long, and maxFailures is 0: m-1", forget,
			},
		},
		{
			name:     "a turn is overdue, and its Node is gone",
			ledger:   func(l *turns.Ledger) { l.Holders["m-9"] = turn("m-9", "node-9", time.Hour) },
			decision: turns.Take,
			want:     []string{},
		},
		{
			name:     "a restored turn is overdue",
			ledger:   func(l *turns.Ledger) { l.Restored["m-3"] = turn("m-3", "node-3", time.Hour) },
			decision: turns.Stop,
			want: []string{
				"no node may begin: 1 have their turn for too long, and maxFailures is 0: m-3", forget,
			},
		},
		{
			name:     "a restored turn without its mark",
			ledger:   func(l *turns.Ledger) { l.Restored["m-1"] = turn("m-1", "node-1", time.Hour) },
			decision: turns.Take,
			want:     []string{},
		},
		{
			name:     "more have failed than may since the policy has changed",
			ledger:   func(l *turns.Ledger) { l.Failed = 2 },
			policy:   "maxFailures: 1",
			decision: turns.Stop,
			want: []string{
				"no node may begin with the configuration: 2 have failed, and maxFailures is 1", resume,
			},
		},
		{
			name: "one has failed and one is late",
			ledger: func(l *turns.Ledger) {
				l.Failed = 1
				l.Holders["m-1"] = turn("m-1", "node-1", time.Hour)
			},
			policy:   "maxFailures: 1",
			decision: turns.Stop,
			want: []string{
				"no node may begin with the configuration: 1 have failed, 1 have their turn for too " +
					"long (m-1), and maxFailures is 1", resume,
			},
		},
		{
			name: "more have failed than may in a pool that is paused",
			ledger: func(l *turns.Ledger) {
				*l = l.Pause("lunch")
				l.Failed = 1
			},
			decision: turns.Stop,
			want: []string{
				"no node may begin with the configuration: 1 have failed, and maxFailures is 0",
				"`loamctl rollout resume edge` ends the pause and, once more, lets as many more fail",
			},
		},
		{
			name: "more have failed with a system",
			ledger: func(l *turns.Ledger) {
				l.Systems["89ab"] = turns.Rollout{Target: "89ab", Version: "2.0.0", Failed: 1}
			},
			decision: turns.Take,
			want: []string{
				"no node may begin with version 2.0.0: 1 have failed, and maxFailures is 0", resume,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "{maxUnavailable: 2, chunks: [100%], " + tt.policy + "}"
			p, err := turns.ParsePolicy("policy", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			l := turns.New()
			l.State = turns.Running
			l.Target = "new"
			l.Size = 3
			tt.ledger(&l)

			mark := turn("m-3", "node-3", time.Hour).String()
			api := clusterAPI{fakeAPI{
				edgeLease:             object(t, l.Annotations(nil)),
				edgeSecret:            object(t, map[string]string{policyAnnotation: text}),
				nodesPath + "/node-1": object(t, nil),
				nodesPath + "/node-2": object(t, nil),
				nodesPath + "/node-3": object(t, map[string]string{markAnnotation: mark}),
			}}
			me := turns.Me{Machine: "m-2", Node: "node-2", Target: "new", Class: turns.Kubelet}
			fleet := turns.Fleet{{Name: "node-1"}, {Name: "node-2"}, {Name: "node-3", Mark: mark}}
			if d := turns.Decide(p, l, me, fleet, now); d.Verdict != tt.decision {
				t.Errorf("a node decides %+v", d)
			}

			r := Rollout{API: api, Pool: "edge"}
			plan, err := r.Plan(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			want := append([]string{}, stops("edge", l)...)
			want = append(want, tt.want...)
			if diff := cmp.Diff(want, plan.Problems); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			report, err := r.Report(t.Context(), l, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, report.Problems); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			page := strings.Join(tt.want, "\n        ")
			if page != "" && !strings.HasSuffix(report.String(), "stands  "+page+"\n") {
				t.Errorf("status prints\n%swithout\n%s", report, page)
			}
		})
	}
}

// TestStatusNeedsNoPolicy: a person may have no right to read Secrets.
func TestStatusNeedsNoPolicy(t *testing.T) {
	l := turns.New()
	l.State = turns.Running
	l.Failed = 2
	api := clusterAPI{fakeAPI{edgeLease: object(t, l.Annotations(nil))}}
	report, err := Rollout{API: api, Pool: "edge"}.Report(t.Context(), l, time.Now())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%q, %v", report.Problems, err)
	}
}

// TestAConfigurationThatIsHaltedIfItComesBackIsShown has nodes decide about it, before
// and after what is said to end it.
func TestAConfigurationThatIsHaltedIfItComesBackIsShown(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := strings.Repeat("a", 64)
	l := turns.New()
	l.State = turns.Running
	l.Target = first
	l.Revision = 1
	l.Halted = "node-1: it is bad"
	l.Holders["node-2"] = turns.Holder{ID: "2", Machine: "node-2", Node: "node-2"}
	l = l.Give(turns.Me{Machine: "node-2", Target: "second", Revision: 2}, "2")
	back := turns.Me{Machine: "node-3", Node: "node-3", Target: first, Revision: 3}
	if d := turns.Decide(turns.Policy{}, l, back, nil, now); d.Verdict != turns.Stop {
		t.Fatalf("a node decides %+v of\n%+v", d, l)
	}

	const want = "configuration aaaaaaaaaaaa is halted if it comes back: node-1: it is bad"
	if got := stops("edge", l); len(got) != 2 || got[0] != want {
		t.Errorf("plan says %q", got)
	}
	report, err := Rollout{API: clusterAPI{}, Pool: "edge"}.Report(t.Context(), l, now)
	if err != nil || !strings.Contains(report.String(), "halted  "+want+"\n") {
		t.Errorf("%v, status says\n%s", err, report)
	}

	l = l.Resume()
	if d := turns.Decide(turns.Policy{}, l, back, nil, now); d.Verdict == turns.Stop &&
		strings.Contains(d.Why, "halted") {
		t.Errorf("after resume, a node decides %+v", d)
	}
	if got := stops("edge", l); len(got) > 0 {
		t.Errorf("after resume, plan says %q", got)
	}
}

// TestTheHaltOfThePresentConfigurationIsShownOnce: it came back, and a node has seen it.
func TestTheHaltOfThePresentConfigurationIsShownOnce(t *testing.T) {
	l := turns.New()
	l.Target = "first"
	l.Halted = "node-1: it is bad"
	l.Halts["first"] = l.Halted
	if got := stops("edge", l); len(got) != 2 || len(keptHalts(l)) > 0 {
		t.Errorf("%q", got)
	}
}
