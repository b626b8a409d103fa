package turns

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
)

func TestPolicy(t *testing.T) {
	p, err := ParsePolicy("policy", []byte(`{
		"maxUnavailable": "5%", "hardMax": "30%", "perZone": 40, "perRack": 1,
		"rackLabel": "example.com/rack", "nodes": "pool=a", "maxFailures": 2,
		"chunks": [1, "10%", "100%"],
		"windows": [{"open": "Mon-Fri 22:00-04:00", "timeZone": "Europe/Berlin"}],
		"overdue": {"reboot": "1h"}, "drain": {"timeout": "2m", "force": true}}`))
	if err != nil {
		t.Fatal(err)
	}

	monday := time.Date(2026, 7, 6, 12, 0, 0, 0, time.UTC)
	if got := p.Opens(monday); !got.Equal(monday.Add(8 * time.Hour)) {
		t.Errorf("opens %s", got)
	}

	p.Windows = nil
	want := Policy{
		MaxUnavailable: Amount{Percent: 5},
		HardMax:        Amount{Percent: 30},
		PerZone:        Amount{Number: 40},
		PerRack:        Amount{Number: 1},
		RackLabel:      "example.com/rack",
		Nodes:          "pool=a",
		Chunks:         []Amount{{Number: 1}, {Percent: 10}, {Percent: 100}},
		MaxFailures:    2,
		Overdue: map[Class]time.Duration{
			Kubelet: 10 * time.Minute,
			Pods:    30 * time.Minute,
			Reboot:  time.Hour,
		},
		Drain: Drain{
			Timeout:            2 * time.Minute,
			Force:              true,
			DeleteEmptyDirData: true,
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

// TestADrainIsPostponedBeforeItsTurnIsOverdue checks the default.
func TestADrainIsPostponedBeforeItsTurnIsOverdue(t *testing.T) {
	p, err := ParsePolicy("policy", []byte(`{maxUnavailable: 1, overdue: {pods: 5m},
		drain: {deleteEmptyDirData: false}}`))
	want := Drain{Timeout: 150 * time.Second}
	if p.Drain != want || err != nil {
		t.Errorf("%+v, want %+v: %v", p.Drain, want, err)
	}
}

// TestAZoneThatNodesDoNotHaveIsRefused: they have the zones of Go, and an operator those
// of a disk, by more names.
func TestAZoneThatNodesDoNotHaveIsRefused(t *testing.T) {
	const policy = `{maxUnavailable: 1, windows: [{open: "22:00-23:00", timeZone: %q}]}`
	for zone, isKnown := range map[string]bool{
		"":                               true,
		"UTC":                            true,
		"Europe/Berlin":                  true,
		"Etc/GMT+5":                      true,
		"America/Port-au-Prince":         true,
		"America/North_Dakota/New_Salem": true,
		"posix/Europe/Berlin":            false,
		"right/Europe/Berlin":            false,
		"localtime":                      false,
		"Local":                          false,
		"Europe//Berlin":                 false,
		"./Europe/Berlin":                false,
	} {
		_, err := ParsePolicy("policy", fmt.Appendf(nil, policy, zone))
		if (err == nil) != isKnown {
			t.Errorf("%q: %v", zone, err)
		}
	}
}

// TestABadPolicyIsRefused checks that each problem has its path and a hint.
func TestABadPolicyIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, path, problem string }{
		{"nothing", `{}`, "maxUnavailable", "is missing"},
		{"no node at all", `{maxUnavailable: 0}`, "maxUnavailable", "is 0: no node could ever change"},
		{
			"no share at all",
			`{maxUnavailable: "0%"}`,
			"maxUnavailable",
			"is 0%: no node could ever change",
		},
		{"more than all", `{maxUnavailable: "101%"}`, "maxUnavailable", "is 101%"},
		{"more than a ledger holds", `{maxUnavailable: 10000}`, "maxUnavailable",
			fmt.Sprintf("is 10000: a ledger holds the turns of %d nodes", MaxHolders())},
		{"less than none", `{maxUnavailable: -1}`, "maxUnavailable", "is -1"},
		{
			"a word",
			`{maxUnavailable: some}`,
			"maxUnavailable",
			`"some" is neither a number nor a percentage`,
		},
		{
			"a fraction",
			`{maxUnavailable: 1.5}`,
			"maxUnavailable",
			"is neither a number nor a percentage",
		},
		{"no node of a zone", `{maxUnavailable: 1, perZone: 0}`, "perZone",
			"is 0: no node could ever change"},
		{"racks without a label", `{maxUnavailable: 1, perRack: 1}`, "perRack", "has no rackLabel"},
		{
			"a label without racks",
			`{maxUnavailable: 1, rackLabel: rack}`,
			"rackLabel",
			"has no perRack",
		},
		{
			"a hard limit below the limit",
			`{maxUnavailable: 5, hardMax: 3}`,
			"hardMax",
			"is 3, and maxUnavailable 5",
		},
		{"an empty first chunk", `{maxUnavailable: 1, chunks: [0]}`, "chunks[0]",
			"is 0: no node could ever change"},
		{"chunks that shrink", `{maxUnavailable: 1, chunks: [3, 2]}`, "chunks[1]", "is 2, after 3"},
		{"a chunk after all nodes", `{maxUnavailable: 1, chunks: ["100%", 1]}`, "chunks[1]",
			"is 1, after 100%"},
		{"numbers that shrink around a share", `{maxUnavailable: 1, chunks: [5, "10%", 3]}`,
			"chunks[2]", "is 3, after 5"},
		{"a hexadecimal number", `{maxUnavailable: 0x10}`, "maxUnavailable",
			"is a number in another notation than digits"},
		{"an octal number", `{maxUnavailable: 1, hardMax: 010}`, "hardMax",
			"is a number in another notation than digits"},
		{"a number with an underscore", `{maxUnavailable: 1, chunks: [1, 1_0]}`, "chunks[1]",
			"is a number in another notation than digits"},
		{"a number of failures in another notation", `{maxUnavailable: 1, maxFailures: 0b1}`,
			"maxFailures", "is a number in another notation than digits"},
		{"a selector that Kubernetes refuses", `{maxUnavailable: 1, nodes: "a=b=c ,,("}`, "nodes",
			`"a=b=c ,,(" is not a label selector: found '=', expected: ',' or 'end of string'`},
		{"a rack label that Kubernetes refuses",
			`{maxUnavailable: 1, perRack: 1, rackLabel: "no label!"}`, "rackLabel",
			`"no label!" is not the name of a label`},
		{"an empty text", "", "maxUnavailable", "is missing"},
		{"only a comment", "# later\n", "maxUnavailable", "is missing"},
		{"failures below none", `{maxUnavailable: 1, maxFailures: -1}`, "maxFailures", "is -1"},
		{
			"a window that never opens",
			`{maxUnavailable: 1, windows: [{open: "22:00-22:00"}]}`,
			"windows[0].open",
			`never opens: "22:00-22:00": want two times of day, such as 22:00-04:00`,
		},
		{"a window without a time", `{maxUnavailable: 1, windows: [{}]}`, "windows[0].open",
			"is missing"},
		{
			"an unknown zone",
			`{maxUnavailable: 1, windows: [{open: "22:00-23:00", timeZone: Mars/Base}]}`,
			"windows[0].timeZone",
			`"Mars/Base" is not a time zone`,
		},
		{
			"a turn that is overdue at once",
			`{maxUnavailable: 1, overdue: {kubelet: 1s}}`,
			"overdue.kubelet",
			`"1s" is not a duration of 1m0s to 292 years`,
		},
		{
			"a turn that is overdue after 10,000 years",
			`{maxUnavailable: 1, overdue: {reboot: 87600000h}}`,
			"overdue.reboot",
			`"87600000h" is not a duration of 1m0s to 292 years`,
		},
		{
			"a drain that is over at once",
			`{maxUnavailable: 1, drain: {timeout: 0s}}`,
			"drain.timeout",
			`"0s" is not a duration of 1s to 292 years`,
		},
		{
			"a drain that takes longer than a turn",
			`{maxUnavailable: 1, drain: {timeout: 30m}}`,
			"drain.timeout",
			"is 30m0s, and overdue.pods 30m0s",
		},
		{
			"a drain that takes longer than a turn of a restart",
			`{maxUnavailable: 1, drain: {timeout: 50m}, overdue: {pods: 1h}}`,
			"drain.timeout",
			"is 50m0s, and overdue.reboot 30m0s",
		},
		{"an unknown field", `{maxUnavailable: 1, maxFailure: 1}`, "maxFailure", "unknown field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParsePolicy("policy", []byte(tt.text))
			var all document.Errors
			if !errors.As(err, &all) || len(all) != 1 {
				t.Fatalf("%v", err)
			}
			if got := all[0]; got.Path != tt.path || got.Problem != tt.problem || got.Hint == "" {
				t.Errorf("%s: %q, hint %q", got.Path, got.Problem, hint.Of(err))
			}
		})
	}
}

func TestAmount(t *testing.T) {
	for _, tt := range []struct {
		name   string
		amount Amount
		size   int
		want   int
	}{
		{"a number", Amount{Number: 3}, 100, 3},
		{"a share", Amount{Percent: 5}, 5000, 250},
		{"a share is rounded down", Amount{Percent: 5}, 59, 2},
		{"and not to 0", Amount{Percent: 5}, 3, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.amount.Of(tt.size); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// TestChunksGrow checks that another node may always begin in the end.
func TestChunksGrow(t *testing.T) {
	p := Policy{Chunks: defaultChunks()}
	for _, tt := range []struct{ done, want int }{
		{0, 1}, {1, 10}, {9, 10}, {10, 50}, {50, 250}, {250, 1000},
		{1000, 1001}, {1001, 1010}, {1260, 2000}, {2000, 2001}, // The pool changes to it once more.
	} {
		if got := p.chunk(tt.done, 1000); got != tt.want {
			t.Errorf("after %d: %d, want %d", tt.done, got, tt.want)
		}
	}
	if got := p.chunk(3, 0); got != 4 {
		t.Errorf("of no nodes: %d, want 4", got)
	}
}
