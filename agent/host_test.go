package agent

import (
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

func TestTakenBackIsOfTheLastRecord(t *testing.T) {
	reverted := apply.Record{
		From:       "3-b",
		Generation: "2-a",
		Outcome:    apply.Reverted,
		Reason:     "unit a.service failed",
	}
	byOperator := reverted
	byOperator.Reason = apply.RolledBack
	applied := apply.Record{Generation: "4-c", Outcome: apply.Applied}

	for _, tt := range []struct {
		name    string
		records []apply.Record
		current string
		want    *status.TakenBack
	}{
		{"no history", nil, "2-a", nil},
		{
			"taken back", []apply.Record{applied, reverted}, "2-a",
			&status.TakenBack{Generation: "3-b", Why: "unit a.service failed"},
		},
		{"another generation runs", []apply.Record{reverted}, "5-d", nil},
		{"a change since", []apply.Record{reverted, applied}, "4-c", nil},
		{"an operator went back", []apply.Record{byOperator}, "2-a", nil},
	} {
		if diff := cmp.Diff(tt.want, takenBack(tt.records, tt.current)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestADiskThatFailsIsRemembered by an agent that starts again: the disk may not
// answer any more.
func TestADiskThatFailsIsRemembered(t *testing.T) {
	n := &node{root: files.Root(t)}
	want := []status.Disk{{Name: "sda", Code: fault.DiskFailing, Problem: "the disk sda fails"}}
	dir := durable.New(n.root, nil)
	err := dir.MkdirAll(path.Dir(status.Path[1:]))
	if err == nil {
		err = status.Write(dir, status.Status{Disks: want})
	}
	if err != nil {
		t.Fatal(err)
	}

	n.remember()
	if diff := cmp.Diff(want, n.status.Disks); diff != "" {
		t.Error(diff)
	}
}
