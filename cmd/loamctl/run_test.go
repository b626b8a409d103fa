package main

import (
	"testing"

	"github.com/loam-os/loam/agent/status"
)

func TestRunWaitsForTheVerdict(t *testing.T) {
	well := status.Unit{
		Name:    "a.service",
		Active:  "active",
		Sub:     "running",
		Settled: true,
	}
	starting := status.Unit{Name: "a.service", Active: "activating", Sub: "start"}

	for _, test := range []struct {
		name    string
		status  status.Status
		final   bool
		verdict string
	}{
		{
			name:   "no report yet",
			status: status.Status{},
		},
		{
			name:   "files are written and units start",
			status: status.Status{Phase: status.Applying},
		},
		{
			name: "applied, and its units are watched",
			status: status.Status{
				Phase:  status.Applied,
				Change: &status.Change{Waits: "all units stay up"},
				Units:  []status.Unit{well},
			},
		},
		{
			name: "applied, and the units have proven themselves",
			status: status.Status{
				Phase: status.Applied,
				Units: []status.Unit{well},
			},
			final: true,
		},
		{
			name: "a unit has failed, and an earlier generation comes back",
			status: status.Status{
				Phase:  status.Failed,
				Error:  &status.Error{Problem: "unit a.service failed"},
				Change: &status.Change{From: "000001-aa", Good: "000001-aa"},
			},
		},
		{
			name: "a unit has failed, and there is nothing to go back to",
			status: status.Status{
				Phase:  status.Failed,
				Error:  &status.Error{Problem: "unit a.service failed", Hint: "`loam logs a.service`"},
				Change: &status.Change{Waits: "there is nothing to go back to"},
			},
			final: true,
			verdict: "the node does not run the configuration: unit a.service failed; " +
				"hint: `loam logs a.service`",
		},
		{
			name: "the document is refused: the error names the file on this side",
			status: status.Status{
				Phase: status.Failed,
				Error: &status.Error{
					Document: credential,
					Line:     6,
					Path:     "spec.a",
					Problem:  "unknown",
				},
			},
			final:   true,
			verdict: "the node does not run the configuration: pool/osc.yaml:6: spec.a: unknown",
		},
		{
			name: "a unit comes up late",
			status: status.Status{
				Phase: status.Applied,
				Units: []status.Unit{well, starting},
			},
			final: true,
			verdict: "the node does not run all of the configuration: " +
				"a.service is activating (start)",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := isFinal(test.status); got != test.final {
				t.Errorf("final: %t, want %t", got, test.final)
			}
			if !test.final {
				return
			}

			got := ""
			if err := verdict(test.status, "pool/osc.yaml"); err != nil {
				got = err.Error()
			}
			if got != test.verdict {
				t.Errorf("verdict %q, want %q", got, test.verdict)
			}
		})
	}
}
