package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/status"
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
