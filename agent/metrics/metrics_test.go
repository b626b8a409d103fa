package metrics_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// busy is a node on which much has happened.
func busy() metrics.Sample {
	s := metrics.Sample{
		Status: status.Status{
			Phase:        status.Applied,
			ImageVersion: "1.2.3",
			Generation:   "000042-0123456789ab",
			Digest:       strings.Repeat("0123456789abcdef", 4),
			Change:       &status.Change{Good: "000041-ba9876543210"},
			Drift:        status.Drift{Repaired: 3},
			AgentRSS:     41 << 20,
			Storage:      []status.FileSystem{{Path: "/var", Full: true}, {Path: "/run"}},
			Disks: []status.Disk{
				{
					Name:   "nvme0n1",
					Model:  `a "model"`,
					Serial: "S1",
					Used:   new(103),
					Spare:  new(4),
					Hours:  2,
					Code:   fault.DiskFailing,
				},
				{Name: "sda", Model: "b", Serial: "S2", Unreadable: 8, Celsius: 31},
			},
			Cluster: &status.Cluster{
				Connected: true,
				Expires:   time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
			},
			Units: []status.Unit{
				{Name: "containerd.service", Active: "active"},
				{Name: "kubelet.service", Active: "active"},
				{Name: "a.service", Active: "failed"}, {Name: "b.service", Active: "maintenance"},
			},
		},
		Counters: metrics.Counters{
			WatchRestarts: 7,
			Drained:       2,
			Postponed:     1,
			Turns:         metrics.Turns{Done: 3, Failed: 1, Postponed: 2},
		},
		Goroutines: 23,
	}

	for _, took := range []time.Duration{
		0, 10 * time.Second, 10001 * time.Millisecond, 14 * time.Second, 3 * time.Minute, time.Hour,
	} {
		s.Counters.Applied("applied", took)
	}

	s.Counters.Applied("reverted", 200*time.Second)
	return s
}

func TestTextGolden(t *testing.T) {
	for name, sample := range map[string]metrics.Sample{"busy": busy(), "new": {}} {
		t.Run(name, func(t *testing.T) {
			got := sample.Text()
			file := "testdata/" + name + ".prom"
			if os.Getenv("LOAM_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}

			lint(t, got)
		})
	}
}

func TestValues(t *testing.T) {
	const info = `loam_generation_info{generation="000042-0123456789ab",digest="` // and so on
	for _, test := range []struct {
		name   string
		change func(*metrics.Sample)
		want   string // a line; "no " before it means that no line may begin with it
	}{
		{"a node without a configuration", func(s *metrics.Sample) {
			s.Status.Generation = ""
		}, "no loam_generation_info{"},
		{
			"a node with one",
			func(*metrics.Sample) {},
			info + strings.Repeat("0123456789abcdef", 4) + `",os_version="1.2.3"} 1`,
		},
		{"a change that is applied is not well", func(s *metrics.Sample) {
			s.Status.Phase = status.Applying
		}, `loam_health{state="well"} 0`},
		{"a node that has failed", func(s *metrics.Sample) {
			s.Status.Phase = status.Failed
			s.Status.Change = nil
			s.Status.RevertedFrom = ""
			s.Status.Error = &status.Error{Problem: "unit a.service failed"}
			s.Status.Units = []status.Unit{{Name: "a.service", Active: "failed"}}
		}, `loam_health{state="not well"} 1`},
		{"a node that is well", func(s *metrics.Sample) {
			s.Status = status.Status{Phase: status.Applied}
		}, `loam_health{state="well"} 1`},
		{"a change that is watched", func(*metrics.Sample) {}, "loam_pending 1"},
		{"a change that is applied", func(s *metrics.Sample) {
			s.Status.Change = nil
			s.Status.Phase = status.Applying
		}, "loam_pending 1"},
		{"no change", func(s *metrics.Sample) { s.Status.Change = nil }, "loam_pending 0"},
		{"a cluster that does not answer", func(s *metrics.Sample) {
			s.Status.Cluster.Connected = false
		}, "loam_cluster_connected 0"},
		{"a node of no cluster", func(s *metrics.Sample) {
			s.Status.Cluster = nil
		}, "no loam_cluster_connected"},
		{"no certificate yet", func(s *metrics.Sample) {
			s.Status.Cluster.Expires = time.Time{}
		}, "no loam_certificate_expiry_seconds"},
		{"a turn", func(s *metrics.Sample) {
			s.Status.Cluster.Turn = status.Turn{For: "2.0.0", Class: "reboot", Since: time.Unix(9, 0)}
		}, "loam_turn_held{class=\"reboot\"} 1"},
		{"when a turn was taken", func(s *metrics.Sample) {
			s.Status.Cluster.Turn.Since = time.Unix(9, 0)
		}, "loam_turn_since_seconds 9"},
		{"no turn", func(*metrics.Sample) {}, "no loam_turn_since_seconds"},
		{"a change that waits for its turn", func(s *metrics.Sample) {
			s.Status.Cluster.Turn.Waits = "2 of 2 nodes are away"
		}, "loam_turn_waiting 1"},
		{"since when it waits", func(s *metrics.Sample) {
			s.Status.Cluster.Turn.WaitsSince = time.Unix(9, 0)
		}, "loam_turn_waiting_since_seconds 9"},
		{"a node that waits for no turn", func(*metrics.Sample) {}, "no loam_turn_waiting_since_seconds"},
		{"a rollout that is halted", func(s *metrics.Sample) {
			s.Status.Cluster.Turn.Stopped = "halted"
		}, `loam_rollout_stopped{reason="halted"} 1`},
		{"a turn that is overdue", func(s *metrics.Sample) {
			s.Status.Cluster.Turn.Overdue = true
		}, "loam_turn_overdue 1"},
		{"a turn that has failed", func(*metrics.Sample) {}, `loam_turns_total{outcome="failed"} 1`},
		{"a large number in full", func(s *metrics.Sample) {
			s.Status.AgentRSS = 123456789012
		}, "process_resident_memory_bytes 123456789012"},
		{"a version with every character that is escaped", func(s *metrics.Sample) {
			s.Status.Digest = ""
			s.Status.ImageVersion = "a\\b\"c\nd\xffe"
		},
			info + `",os_version="a\\b\"c\nd` + "\uFFFDe\"} 1"},
		{"an outcome of its own", func(s *metrics.Sample) {
			s.Counters.Applied("odd", 0)
		}, `loam_applies_total{outcome="odd"} 1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := busy()
			test.change(&s)
			text := s.Text()
			lint(t, text)

			begin, not := strings.CutPrefix(test.want, "no ")
			if not && strings.Contains(text, "\n"+begin) {
				t.Errorf("%q in\n%s", begin, text)
			} else if !not && !strings.Contains(text, "\n"+test.want+"\n") {
				t.Errorf("no %q in\n%s", test.want, text)
			}
		})
	}
}

func TestCloneStaysAsItIs(t *testing.T) {
	s := busy()
	before := s.Text()
	copied := metrics.Sample{
		Status:     s.Status,
		Counters:   s.Counters.Clone(),
		Goroutines: s.Goroutines,
	}

	s.Counters.Applied("failed", time.Second)
	if diff := cmp.Diff(before, copied.Text()); diff != "" {
		t.Errorf("the copy has changed (-before +after):\n%s", diff)
	}
}
