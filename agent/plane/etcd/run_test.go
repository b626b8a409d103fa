package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// gateway answers as etcd does. The real one is in test/plane.
type gateway struct {
	away    bool
	refuses string // a method
	state   State
	metrics string
	calls   []string
}

// ServeHTTP implements [http.Handler].
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body) // The metrics have none.
	if g.refuses != "" && r.URL.Path == "/v3/"+g.refuses {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":11,"message":"etcdserver: mvcc: required revision has been compacted"}`)
		return
	}

	switch r.URL.Path {
	case "/metrics":
		fmt.Fprint(w, g.metrics)
	case "/v3/maintenance/status":
		fmt.Fprintf(w, `{"header":{"member_id":"%d","revision":"%d"},"version":"3.6.16",`+
			`"dbSize":"%d","dbSizeInUse":"%d","dbSizeQuota":"%d","leader":"1","raftIndex":"9"}`,
			g.state.Member, g.state.Revision, g.state.Size, g.state.InUse, g.state.Quota)
	case "/v3/cluster/member/list":
		fmt.Fprint(w, `{"members":[{"ID":"1"}]}`)

	case "/v3/maintenance/alarm":
		if body["action"] == "DEACTIVATE" {
			g.calls = append(g.calls, fmt.Sprintf("disarm %v of %v", body["alarm"], body["memberID"]))
			g.state.Alarms = nil
		}
		alarms := []map[string]string{}
		for _, alarm := range g.state.Alarms {
			alarms = append(alarms,
				map[string]string{"memberID": fmt.Sprint(alarm.Member), "alarm": alarm.Kind})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"alarms": alarms})

	case "/v3/kv/compaction":
		g.calls = append(g.calls, fmt.Sprintf("compact %v", body["revision"]))
		fmt.Fprint(w, "{}")
	case "/v3/maintenance/defragment":
		g.calls = append(g.calls, "defragment")
		g.state.Size = g.state.InUse
		fmt.Fprint(w, "{}")
	default:
		http.NotFound(w, r)
	}
}

// maintenance returns the maintenance of g, and what it reports.
func (g *gateway) maintenance(t *testing.T) (*Maintenance, *[]string) {
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	var reported []string

	return &Maintenance{
		Connect: func() (Client, error) {
			if g.away {
				return Client{}, errors.New("connection refused")
			}
			return Client{
				URL:        server.URL,
				MetricsURL: server.URL + "/metrics",
				HTTP:       server.Client(),
			}, nil
		},
		Now: func() time.Time { return noon },
		Report: func(e Event) {
			text := string(e.Condition)
			if e.Step.Action != Nothing {
				text += " " + string(e.Step.Action)
			}
			if e.Err != nil {
				text += ": " + e.Err.Error()
			}
			reported = append(reported, text)
		},
	}, &reported
}

// TestOnlyChangesAreReported: an etcd that starts, ends and starts again.
func TestOnlyChangesAreReported(t *testing.T) {
	g := &gateway{away: true, state: well(), metrics: lines}
	m, reported := g.maintenance(t)
	for _, away := range []bool{true, true, false, false, true, true, false} {
		g.away = away
		m.Look(t.Context())
	}

	want := []string{"ok", "away: connection refused", "ok"}
	if diff := cmp.Diff(want, *reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnAlarmEndsInOneLook(t *testing.T) {
	g := &gateway{state: well(sized(1000, 100), alarmed(Alarm{1, NoSpace})), metrics: lines}
	m, reported := g.maintenance(t)
	m.Look(t.Context())

	calls := []string{"compact 7", "defragment", "disarm NOSPACE of 1"}
	if diff := cmp.Diff(calls, g.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	want := []string{"shrinking compact", "shrinking defragment", "shrinking disarm", "ok"}
	if diff := cmp.Diff(want, *reported); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// TestAnEarlierCompactionIsNoFailure: the API server may have been faster.
func TestAnEarlierCompactionIsNoFailure(t *testing.T) {
	g := &gateway{
		state:   well(sized(1000, 100), alarmed(Alarm{1, NoSpace})),
		metrics: lines,
		refuses: "kv/compaction",
	}
	m, _ := g.maintenance(t)
	m.Look(t.Context())
	if want := []string{"defragment", "disarm NOSPACE of 1"}; !slices.Equal(g.calls, want) {
		t.Errorf("requests %q, want %q", g.calls, want)
	}
}

func TestAStepThatFails(t *testing.T) {
	g := &gateway{
		state:   well(sized(200, 50)),
		metrics: lines,
		refuses: "maintenance/defragment",
	}
	m, reported := g.maintenance(t)
	m.Look(t.Context())
	m.Look(t.Context())

	want := []string{
		"ok defragment",
		"ok defragment: etcd: maintenance/defragment: etcdserver: mvcc: required revision has been compacted",
		"ok",
	}
	if diff := cmp.Diff(want, *reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMetricsAreNotNeeded: without them, an alarm ends all the same.
func TestMetricsAreNotNeeded(t *testing.T) {
	g := &gateway{state: well(sized(1000, 100), alarmed(Alarm{1, NoSpace}))}
	m, reported := g.maintenance(t)
	m.Look(t.Context())

	if g.state.has(NoSpace) {
		t.Error("the alarm is there")
	}
	last := (*reported)[len(*reported)-1]
	if want := "no-metrics: metrics of etcd: " + fsyncMetric + ": there are no buckets"; last != want {
		t.Errorf("reported %q, want %q", last, want)
	}
}

// TestRunEnds with its context.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := &gateway{state: well(), metrics: lines}
	m, reported := g.maintenance(t)
	m.Run(ctx)
	if len(*reported) > 0 {
		t.Errorf("reported %q", *reported)
	}
}
