package show

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestPendingRow(t *testing.T) {
	const row = "* 000002-b             2026-03-01 12:00 UTC  pending           b.yaml\n"
	change := Pending{
		From:   "000001-a",
		To:     "000002-b",
		Began:  noon,
		Source: "b.yaml",
	}
	with := func(edit func(*Pending)) Pending {
		p := change
		edit(&p)
		return p
	}

	tests := []struct {
		name    string
		pending Pending
		want    string
	}{
		{
			"watched, and the agent is silent",
			change,
			row + "    its units have to prove themselves\n",
		},
		{
			"watched, with what the agent says",
			with(func(p *Pending) { p.Waits = "a.service is down" }),
			row + "    a.service is down\n",
		},
		{
			"on trial",
			with(func(p *Pending) { p.Until = noon.Add(5 * time.Minute) }),
			row + "    on trial until 2026-03-01 12:05 UTC\n" +
				"    `loam confirm` keeps it, `loam rollback` ends it\n",
		},
		{
			"on the way back",
			with(func(p *Pending) { p.Back = "a.service failed" }),
			row + "    back from 000001-a: a.service failed\n",
		},
		{
			"a journal that cannot be read",
			Pending{},
			"    a change is under way, whose journal cannot be read\n",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := History{
				Current: "000002-b",
				Kept:    []string{"000002-b"},
				Pending: &tt.pending,
			}
			got := h.Text(time.UTC)
			if !strings.Contains(got, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, got)
			}
			if strings.Count(got, "\n* 000002-b") != 1 {
				t.Errorf("not one mark of the current generation in\n%s", got)
			}
		})
	}
}

func TestHistoryFitsAConsole(t *testing.T) {
	name := "000001-0123456789ab"
	reason := "unit a.service failed: exit-code, exit code 1; its log ends: " +
		strings.Repeat("no such file ", 10)
	h := History{
		Current: name,
		Kept:    []string{name},
		Records: []apply.Record{
			{
				At:         noon,
				Took:       3*time.Minute + 59*time.Second,
				Generation: name,
				Source:     "new.yaml",
				Outcome:    apply.Replaced,
			},
			{
				At:         noon,
				Generation: name,
				Outcome:    apply.Reverted,
				Reason:     reason,
			},
		},
		Held: []apply.Held{{Digest: "0123456789ab", Why: reason, At: noon}},
	}

	for line := range strings.Lines(h.Text(time.UTC)) {
		if len(line) > 80 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
}

func TestNotes(t *testing.T) {
	hosts := config.File{Path: "/etc/hosts.toml", Mode: 0o644, Content: config.Text("x")}
	probed := config.Desired{
		Files:  []config.File{hosts},
		Probes: []config.Probe{{Path: hosts.Path, URLs: []string{"https://a", "https://b"}}},
	}

	has := generation.Manifest{Entries: []generation.Entry{
		{Path: hosts.Path, Kind: generation.KindFile, Digest: hosts.Content.Digest},
	}}

	held := []apply.Held{
		{Digest: "000000000000", Why: "another"},
		{Digest: config.Desired{}.Digest()[:12], Why: "a.service failed"},
	}

	tests := []struct {
		name    string
		desired config.Desired
		have    generation.Manifest
		held    []apply.Held
		journal *generation.Journal
		want    []string
	}{
		{"nothing to add", config.Desired{}, generation.Manifest{}, nil, nil, nil},
		{
			"a file that waits",
			probed,
			generation.Manifest{},
			nil,
			nil,
			[]string{"/etc/hosts.toml waits until https://a, https://b answers"},
		},
		{"a file that waited once", probed, has, nil, nil, nil},
		{
			"what Loam is",
			config.Desired{LeftOut: []config.LeftOut{
				{Name: "gardener-node-agent.service", Why: "Loam itself is that"},
			}},
			generation.Manifest{},
			nil,
			nil,
			[]string{"gardener-node-agent.service is left out: Loam itself is that"},
		},
		{
			"versions",
			config.Desired{Update: &config.Update{OSVersion: "2.0.0", Kubelet: "1.35.0"}},
			generation.Manifest{},
			nil,
			nil,
			[]string{"OS version 2.0.0 is wanted", "kubelet 1.35.0 is wanted"},
		},
		{
			"held",
			config.Desired{},
			generation.Manifest{},
			held,
			nil,
			[]string{"held, so not applied unless asked for with `loam apply`: a.service failed"},
		},
		{
			"another is watched",
			config.Desired{},
			generation.Manifest{},
			nil,
			&generation.Journal{To: "000002-b"},
			nil,
		},
		{
			"another is on trial",
			config.Desired{},
			generation.Manifest{},
			nil,
			&generation.Journal{To: "000002-b", Try: &generation.Try{}},
			[]string{"000002-b is on trial: `loam confirm` or `loam rollback` comes first"},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			diff := cmp.Diff(tt.want, Notes(tt.desired, tt.have, tt.held, tt.journal))
			if diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeOfAChangeInWhichTheClockWasSetIsLeftOut(t *testing.T) {
	for _, tt := range []struct {
		took time.Duration
		want string
	}{
		{90 * time.Second, "applied    1m30s  a.yaml"},
		{60431 * time.Hour, "applied           a.yaml"},
	} {
		h := History{Records: []apply.Record{{
			At:         noon,
			Took:       tt.took,
			Generation: "000001-a",
			Source:     "a.yaml",
			Outcome:    apply.Applied,
		}}}
		if got := h.Text(time.UTC); !strings.Contains(got, tt.want) {
			t.Errorf("%s: no %q in\n%s", tt.took, tt.want, got)
		}
	}
}
