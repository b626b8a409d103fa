package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plan"
)

func TestRestartsComeBeforeStarts(t *testing.T) {
	unit := func(verb plan.Verb, name string) plan.Action {
		return plan.Action{Unit: name, Verb: verb}
	}

	taken := plan.Action{Unit: "d.service", Verb: plan.Restart, By: "b.service"}
	var got [][]string
	for _, stage := range stages([]plan.Action{
		unit(plan.Start, "a.service"), unit(plan.Restart, "b.service"),
		unit(plan.Start, "c.service"), taken,
	}) {
		var names []string
		for _, a := range stage {
			names = append(names, doneName(a))
		}
		if len(names) > 0 {
			got = append(got, names)
		}
	}

	want := [][]string{
		{"restart b.service"},
		{"start a.service", "start c.service"},
		{"start d.service"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}
