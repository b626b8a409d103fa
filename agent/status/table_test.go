package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/hint/fault"
)

func example() Status {
	return Status{
		Phase:        Failed,
		ImageID:      "loam-node-os",
		ImageVersion: "0.1.0",
		Slot:         "a",
		RootHash:     strings.Repeat("0123456789abcdef", 4),
		Kernel:       "6.12.48",
		Hostname:     "nuc-01",
		Generation:   "000001-0123456789ab",
		Source:       "/efi/loam/config.yaml",
		Files:        7,
		Error: &Error{
			Document: "config.yaml",
			Line:     12,
			Path:     "spec.units[2].name",
			Problem:  "empty",
			Hint:     "give the unit a name\x1b[2J",
		},
		Units: []Unit{
			{
				Name:    "containerd.service",
				Active:  "active",
				Sub:     "running",
				Settled: true,
				Since:   Duration(1500 * time.Millisecond),
			},
			{Name: strings.Repeat("long", 20) + ".service", Active: "failed", Sub: "failed"},
		},
		DebugShells: []string{"ttyS1"},
		Uptime:      Duration(12300 * time.Millisecond),
	}
}

func TestTableFitsItsWidth(t *testing.T) {
	s := example()
	for _, since := range []time.Duration{
		0, 999*time.Second + 960*time.Millisecond, 1000 * time.Second, 27 * time.Hour, 28 * time.Hour,
		20_000 * time.Hour,
	} {
		s.Units = append(s.Units, Unit{
			Name:   "hello.service",
			Active: "activating",
			Sub:    "auto-restart",
			Since:  Duration(since),
		})
	}

	for _, width := range []int{40, 64, 80, 132} {
		for line := range strings.Lines(s.Table(View{Width: width})) {
			if len(line) > width+1 || strings.ContainsFunc(strings.TrimSuffix(line, "\n"),
				func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("at width %d: %q", width, line)
			}
		}
	}
}

func TestTableHasTheImportantRows(t *testing.T) {
	got := example().Table(View{Width: 80})
	for _, want := range []string{
		"phase        failed\n", "config.yaml:12 spec.units[2].name: empty",
		"give the unit a name?[2J", "loam-node-os 0.1.0, slot a",
		strings.Repeat("0123456789abcdef", 4), "debug shell open on ttyS1", "containerd.service",
		"active/running", "at 1.5 s", "*failed/failed",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a text that fits", "one two", []string{"one two"}},
		{"a text", "one two three four", []string{"one two three", "four"}},
		{"a long word", "0123456789abcdef", []string{"0123456789abcd", "ef"}},
		{
			"a command",
			"try it with `loam apply` again",
			[]string{"try it with", "`loam apply`", "again"},
		},
		{
			"a command that is longer than a line",
			"then `loam apply --try 5m`",
			[]string{"then `loam", "apply --try", "5m`"},
		},
		{"a backquote alone", "one ` two three", []string{"one ` two", "three"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Wrap(tt.text, 14)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAppliedLine(t *testing.T) {
	s := Status{Generation: "000001-0123456789ab", AppliedAt: Duration(12340 * time.Millisecond)}
	got := s.AppliedLine()
	want := "loam: applied generation 000001-0123456789ab after 12.3 s"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRows(t *testing.T) {
	tests := []struct {
		name   string
		status Status
		want   string
	}{
		{
			"a repository with a password",
			Status{Repository: "https://ada:s3cret@192.0.2.1/updates"},
			"  repository   https://ada:xxxxx@192.0.2.1/updates\n",
		},
		{
			"a change that was taken back",
			Status{TakenBack: &TakenBack{
				Generation: "000003-012345678901",
				Why: "unit hello.service failed: exit-code, exit code 3; its log ends: the greeting " +
					"is broken",
			}},
			"  taken back   000003-012345678901: unit hello.service failed: exit-code, exit\n" +
				"               code 3; its log ends: the greeting is broken (`loam why`)\n",
		},
		{
			"a network",
			Status{Network: &Network{
				From: NetworkKept,
				Next: true,
				Interfaces: []Interface{
					{
						Name:      "bond0",
						As:        "bond0",
						State:     "routable",
						Addresses: []string{"192.0.2.10/24", "2001:db8::10/64"},
					}, {Name: "enp3s0", As: "left", State: "enslaved"},
				},
				Problems: []string{"enp4s0 (right): no carrier"},
			}},
			"  network      as machine.yaml had it last; another from the next boot on\n" +
				"               bond0 routable 192.0.2.10/24 2001:db8::10/64\n" +
				"               enp3s0 (left) enslaved\n",
		},
		{
			"a problem of the network",
			Status{Network: &Network{Problems: []string{"enp4s0 (right): no carrier"}}},
			"  ! network    enp4s0 (right): no carrier\n",
		},
		{"an upgrade that is written", Status{Upgrade: &Upgrade{
			Phase: "staging",
			From:  "1",
			To:    "2",
			Part:  "root",
			Done:  30,
			Size:  120,
		}}, "  upgrade      1 to 2, staging: root 25 %\n"},
		{
			"a system that is held",
			Status{Upgrade: &Upgrade{Held: "until the audit"}},
			"  no upgrade   until the audit (upgrade.hold in machine.yaml)\n",
		},
		{"a release on trial", Status{Upgrade: &Upgrade{
			Phase: "trial",
			From:  "1",
			To:    "2",
			Waits: "node: not ready",
		}}, "  on trial     2, falls back to 1: node: not ready\n"},
		{"a drill", Status{Upgrade: &Upgrade{Drill: &Drill{
			By:    "panic",
			At:    time.Unix(0, 0),
			Boots: 3,
			Took:  Duration(90 * time.Second),
		}}}, "  drill        by panic, 1970-01-01 00:00:00 UTC: back in 1m30s, tries: 3\n"},
		{
			"a drill that failed",
			Status{
				Upgrade: &Upgrade{Drill: &Drill{By: "check", At: time.Unix(0, 0), Problem: "no"}},
			},
			"  drill        by check, 1970-01-01 00:00:00 UTC: no\n",
		},
		{
			"a system that failed",
			Status{
				Upgrade: &Upgrade{Failed: []FailedSystem{
					{Version: "2", Reason: "ill", At: time.Unix(0, 0)},
				}},
			},
			"  failed       2 on 1970-01-01 00:00:00 UTC: ill (`loam why`)\n",
		},
		{
			"a change that was taken back, and all is well",
			Status{
				Phase:        Failed,
				Refused:      true,
				RevertedFrom: "000003-bbbbbbbbbbbb",
				Generation:   "000002-aaaaaaaaaaaa",
				Units:        []Unit{{Name: "a.service", Settled: true}},
			},
			"  phase        running 000002, 000003 refused\n",
		},
		{
			"a document with errors, and all is well",
			Status{Phase: Failed, Refused: true, Generation: "000002-aaaaaaaaaaaa"},
			"  phase        running 000002, the new configuration refused\n",
		},
		{
			"a change that was taken back, and a unit is not well",
			Status{
				Phase:      Failed,
				Refused:    true,
				Generation: "000002-aaaaaaaaaaaa",
				Units:      []Unit{{Name: "a.service"}},
			},
			"  phase        failed\n",
		},
		{
			"a unit with a long state",
			Status{Units: []Unit{{
				Name:   "a.service",
				Active: "activating",
				Sub:    "auto-restart",
				Since:  Duration(126 * time.Second),
			}}},
			"*activating/auto-restart at 126.0 s\n",
		},
		{
			"a unit that a change waits for",
			Status{
				Awaited: &Awaited{Unit: "a.service", State: "activating/start", Deadline: Duration(time.Minute)},
				Uptime:  Duration(10 * time.Second),
			},
			"  waits for    a.service, which is activating/start; taken back in 50s if it is\n",
		},
		{
			"a reset that is on its way",
			Status{Phase: Applying, Reset: &Reset{At: time.Unix(0, 0)}},
			"  phase        reset 1970-01-01 00:00:00 UTC: under way\n",
		},
		{
			"a reset that could not be completed",
			Status{Phase: Failed, Reset: &Reset{At: time.Unix(0, 0)}},
			"  phase        reset 1970-01-01 00:00:00 UTC: not complete\n",
		},
		{
			"a node that was reset",
			Status{Phase: Waiting, Reset: &Reset{At: time.Unix(0, 0), Done: true}},
			"  phase        reset 1970-01-01 00:00:00 UTC: follows no configuration\n",
		},
		{
			"one path that drifted",
			Status{Drift: Drift{Repaired: 1, Last: "/etc/a", At: Duration(2 * time.Second)}},
			"  drift        1 path repaired, last /etc/a at 2.0 s\n",
		},
		{
			"a file that is held back",
			Status{Waits: []config.Probe{
				{Path: "/etc/hosts.toml", URLs: []string{"https://a", "https://b"}},
			}},
			"  held back    /etc/hosts.toml until https://a or https://b answers\n",
		},
		{
			"a cluster of its own",
			Status{OwnCluster: &OwnCluster{Name: "plant-7", Kubernetes: "1.37.2", Ready: true}},
			"  cluster      plant-7, of which this is the first node\n",
		},
		{"notes on the document", Status{Notes: []config.Note{{
			Document: "osc.yaml",
			Line:     3,
			Path:     "spec.a",
			Problem:  "unknown field",
			Hint:     "leave it out",
		}, {Problem: "no SSH"}, {Problem: "x"}}},
			"  note         osc.yaml:3 spec.a: unknown field\n  hint         leave it out\n" +
				"  note         no SSH\n  note         x\n"},
		{
			"versions that are wanted",
			Status{Update: &config.Update{OSVersion: "2.0", Kubelet: "1.35.0"}},
			"  wanted       OS version 2.0, kubelet 1.35.0\n",
		},
		{
			"a key that is wanted",
			Status{Update: &config.Update{ServiceAccountKey: time.Unix(1, 0)}},
			"  wanted       a new service account key\n",
		},
		{"nothing desired", Status{Update: &config.Update{}}, "host name\n"},
		{"a cluster", Status{Cluster: &Cluster{
			Server:    "https://api:6443",
			Node:      "node-1",
			Connected: true,
			Since:     time.Unix(0, 0),
			Expires:   time.Unix(60, 0),
		}},
			"  cluster      https://api:6443\n" +
				"               connected since 1970-01-01 00:00:00 UTC\n" +
				"  node         node-1\n  certificate  until 1970-01-01 00:01:00 UTC\n"},
		{
			"a cluster that is away",
			Status{Cluster: &Cluster{
				Server:  "https://api:6443",
				Since:   time.Unix(0, 0),
				Expires: time.Unix(1, 0),
				Problem: "api:6443 does not answer",
			}},
			"  ! cluster    api:6443 does not answer\n" +
				"\n" +
				"  cluster      https://api:6443\n" +
				"               not reached since 1970-01-01 00:00:00 UTC\n",
		},
		{
			"a change",
			Status{Change: &Change{Good: "000001-a", Waits: "all units are well"}},
			"  watched      all units are well; goes back to 000001-a if it is worse\n",
		},
		{
			"the first change",
			Status{Change: &Change{Waits: "all units are well"}},
			"  watched      all units are well; there is nothing to go back to\n",
		},
		{
			"a trial",
			Status{Change: &Change{
				Good:  "000001-a",
				Until: time.Unix(0, 0),
				Waits: "unit a.service is activating/start",
			}},
			"  on trial     until 1970-01-01 00:00:00 UTC, then back to 000001-a\n" +
				"               unit a.service is activating/start\n" +
				"               `loam confirm` keeps it, `loam rollback` ends it\n",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.status.Hostname = "host name"
			if got := tt.status.Table(View{Width: 80}); !strings.Contains(got, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, got)
			}
		})
	}
}

func TestUnhealthyUnitsComeFirstAndFit(t *testing.T) {
	s := example()
	s.Units = slices.Insert(slices.Repeat(s.Units[:1], 500), 300, s.Units[1])

	got := s.Table(View{Width: 80, Lines: 23})
	if lines := strings.Count(got, "\n"); lines != 23 {
		t.Errorf("%d lines:\n%s", lines, got)
	}

	if !strings.Contains(got, "  units        longlong") ||
		!strings.Contains(got, "               and 496 more, all as wanted\n") {
		t.Errorf("in\n%s", got)
	}

	if lines := strings.Count(s.Table(View{Width: 80}), "\n"); lines < 500 {
		t.Errorf("%d lines although there is room for all", lines)
	}
}

// A console has no room for all notes on a document.
func TestNotesFit(t *testing.T) {
	s := example()
	s.Notes = slices.Repeat(
		[]config.Note{{Path: "spec.a", Problem: "unknown field", Hint: "leave it out"}}, 100,
	)

	got := s.Table(View{Width: 80, Lines: 23})
	if lines := strings.Count(got, "\n"); lines > 23 {
		t.Errorf("%d lines:\n%s", lines, got)
	}

	want := "  note         spec.a: unknown field\n  note         spec.a: unknown field\n" +
		"               and 98 more: loam status\n"
	if !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

func TestTableShowsTheDataVolume(t *testing.T) {
	for want, v := range map[string]*Volume{
		"data volume  /dev/sdb, xfs, 50.0 GiB\n": {
			Device:     "/dev/sdb",
			FileSystem: "xfs",
			Size:       50 << 30,
		},
		"data volume  /dev/sdb is gone\n": {
			Device:     "/dev/sdb",
			FileSystem: "xfs",
			Problem:    "gone",
		},
		"data volume  none: the kubelet does not start\n": {Problem: "no data volume: " +
			"no disk that is free matches"},
		"warning      its disk has grown, and it has not\n": {
			Device:   "/dev/sdb",
			Size:     1,
			Warnings: []string{"its disk has grown, and it has not"},
		},
	} {
		if got := (Status{Volume: v}).Table(View{Width: 80}); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}

	etcd := Status{EtcdVolume: &Volume{Problem: "no disk", Warnings: []string{"not encrypted"}}}
	const want = "etcd volume  none: etcd does not start\n"
	if got := etcd.Table(View{Width: 80}); !strings.Contains(got, want) ||
		!strings.Contains(got, "not encrypted") {
		t.Errorf("%q is not in\n%s", want, got)
	}

	if got := (Status{}).Table(View{Width: 80}); strings.Contains(got, " volume") {
		t.Errorf("an unclaimed volume:\n%s", got)
	}
}

// Whoever reads the log of a serial line must not be told what is not so.
func TestProblemsAreLinesOfText(t *testing.T) {
	s := example()
	s.Error.Code = fault.DocumentInvalid
	s.Error.Problem = "no key \x1b[2J\r\n\tloam\u202e nuc-01"

	line := "loam nuc-01: document-invalid: config.yaml:12 spec.units[2].name: " +
		"no key [2J loam nuc-01"
	want := []Problem{{Of: "error", Cause: line, Line: line}}
	if diff := cmp.Diff(want, s.Problems()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestAShelfOfDisksFails: those that fail come first, and a screen has room for
// the rest of the page.
func TestAShelfOfDisksFails(t *testing.T) {
	s := Status{Units: []Unit{{Name: "a.service"}}}
	for i := range 200 {
		d := Disk{Name: fmt.Sprint("sd", i), Code: fault.DiskWorn, Problem: fmt.Sprint("worn ", i)}
		if i >= 198 {
			d.Code, d.Problem = fault.DiskFailing, fmt.Sprint("failing ", i)
		}
		s.Disks = append(s.Disks, d)
	}

	page := s.Table(View{Width: 80, Lines: 24})
	for _, want := range []string{"failing 198", "failing 199", "worn 0", "and 197 more", "a.service"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	whole := s.Table(View{Width: 80})
	if n := strings.Count(whole, "! disk"); n != 200 {
		t.Errorf("loam status has %d of 200 disks", n)
	}
}
