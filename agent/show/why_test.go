package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/hint/fault"
)

func TestExplainHasTheNewestFirst(t *testing.T) {
	s := status.Status{
		Error: &status.Error{Document: "osc.yaml", Line: 3, Problem: "empty"},
		Upgrade: &status.Upgrade{Failed: []status.FailedSystem{
			{Version: "0.2.0", At: noon.Add(time.Hour)},
			{Version: "0.1.0", At: noon.Add(-time.Hour)},
		}},
	}
	history := []apply.Record{
		{Generation: "000001-a", Outcome: apply.Applied, At: noon},
		{
			From:       "000002-b",
			Generation: "000001-a",
			Outcome:    apply.Reverted,
			At:         noon,
		},
		{
			From:       "000003-c",
			Generation: "000001-a",
			Outcome:    apply.Reverted,
			At:         noon,
			Reason:     apply.RolledBack,
		},
	}

	var names []string
	for _, f := range Explain(s, history, nil).Failures {
		names = append(names, strings.TrimSpace(string(f.Kind)+" "+f.Name))
	}
	want := []string{"now", "system 0.2.0", "configuration 000002-b", "system 0.1.0"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestExplainSaysWhatToDoAboutARelease(t *testing.T) {
	s := status.Status{Upgrade: &status.Upgrade{Failed: []status.FailedSystem{
		{Version: "0.2.0", Reason: upgrade.NotStarted},
	}}}
	f := Explain(s, nil, nil).Failures[0]
	if f.Hint == "" || strings.Contains(f.Problem, "hint") {
		t.Errorf("%+v", f)
	}
}

func TestExplainNamesWhatKeepsANodeFromItsCluster(t *testing.T) {
	s := status.Status{Cluster: &status.Cluster{
		Problem: "192.0.2.1:6443 does not answer",
		Tried:   "192.0.2.1:6443, from enp1s0 192.0.2.10/24",
		Hint:    "check that the machine is up",
		Code:    fault.ServerUnreachable,
	}}

	want := "now: server-unreachable: 192.0.2.1:6443 does not answer\n" +
		"  hint: check that the machine is up\n" +
		"  | tried 192.0.2.1:6443, from enp1s0 192.0.2.10/24\n"
	if diff := cmp.Diff(want, Explain(s, nil, nil).Text(false)); diff != "" {
		t.Error(diff)
	}
}

func TestExplainTellsOfARevertOnce(t *testing.T) {
	s := status.Status{
		Refusal: status.Reverted,
		Error:   &status.Error{Unit: "a.service", Problem: "generation 000002-b was taken back"},
	}
	history := []apply.Record{
		{From: "000002-b", Outcome: apply.Reverted, Reason: "a.service failed"},
	}
	held := []apply.Held{{Generation: "000002-b", Unit: "a.service"}}

	want := []Failure{{
		Kind:    OfConfiguration,
		Name:    "000002-b",
		Problem: "a.service failed",
		Unit:    "a.service",
	}}
	if diff := cmp.Diff(want, Explain(s, history, held).Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestWhySaysWhereThereIsNoEvidence(t *testing.T) {
	const noLog = "  the boots that failed have left no log\n"
	for reason, want := range map[string]bool{"it is ill": true, upgrade.RolledBack: false} {
		w := Why{Failures: []Failure{{Kind: OfSystem, Name: "0.2.0", Problem: reason}}}
		if got := strings.HasSuffix(w.Text(false), noLog); got != want {
			t.Errorf("%s:\n%s", reason, w.Text(false))
		}
	}
}

func TestWhyOfAWellNodeNamesItsSystem(t *testing.T) {
	for _, tt := range []struct{ id, version, want string }{
		{"loam-node-os", "0.1.0", "; it runs loam-node-os 0.1.0"},
		{"", "0.1.0", "; it runs 0.1.0"},
		{"loam-node-os", "", "; it runs loam-node-os"},
		{"", "", ""},
	} {
		why := Explain(status.Status{ImageID: tt.id, ImageVersion: tt.version}, nil, nil)
		want := "nothing has gone wrong on this node" + tt.want + "\n"
		if got := why.Text(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhyIsPrintable has a status and a history with codes for a terminal, and with
// names of any length.
func TestWhyIsPrintable(t *testing.T) {
	const codes, fit = "a\x1b[2J\u009b2J\x9bb", "a [2J 2J b"
	long := strings.Repeat("n", 1<<20)
	why := Explain(
		status.Status{
			Error:   &status.Error{Problem: codes + " " + long + " is bad", Hint: codes},
			Cluster: &status.Cluster{Problem: codes, Hint: codes, Tried: codes},
			Upgrade: &status.Upgrade{Failed: []status.FailedSystem{{
				Version:  codes,
				RootHash: codes,
				Reason:   codes,
				Evidence: []string{codes},
			}}},
		},
		[]apply.Record{{Outcome: apply.Failed, Generation: codes, Reason: codes}},
		[]apply.Held{{Generation: codes, Unit: codes}},
	)
	raw, err := json.Marshal(why)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"text": why.Text(true), "JSON": string(raw)} {
		if !printable.IsText([]byte(text)) || strings.Contains(text, `\u00`) || len(text) > 3000 {
			t.Errorf("%s has %d bytes: %.3000q", what, len(text), text)
		}
		if got := strings.Count(text, fit); got < 9 {
			t.Errorf("%s has %d of the texts: %.3000q", what, got, text)
		}
		if !strings.Contains(text, "nnn is bad") {
			t.Errorf("%s does not say what is wrong: %.3000q", what, text)
		}
	}
}

// TestEvidenceIsPrintable has a log with commands for a terminal, and a line of
// any length.
func TestEvidenceIsPrintable(t *testing.T) {
	why := Why{Failures: []Failure{{
		Kind:     OfNow,
		Problem:  "unit a.service failed",
		Evidence: []string{"a\x1b]0;x\x07b", "c\u009b2Jd\x9be", strings.Repeat("f", 1<<20)},
	}}}
	want := "now: unit a.service failed\n  | a ]0;x b\n  | c 2Jd e\n  | " +
		strings.Repeat("f", 4096) + " ...\n"
	if got := why.Text(false); got != want {
		t.Errorf("%.200q", got)
	}
}
