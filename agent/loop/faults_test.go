package loop

import (
	"testing"

	"github.com/loam-os/loam/agent/status"
)

func TestFirstFaultIsTheOneToRepairFirst(t *testing.T) {
	fault := func(problem string) *status.Error { return &status.Error{Problem: problem} }
	f := Faults{
		Desired:    fault("desired"),
		Unfinished: fault("unfinished"),
		Volume:     fault("volume"),
		EtcdVolume: fault("etcd volume"),
		Jobs:       fault("jobs"),
		Unit:       fault("unit"),
		Drift:      fault("drift"),
	}
	for _, step := range []struct {
		want   string
		repair **status.Error
	}{
		{"desired", &f.Desired},
		{"unfinished", &f.Unfinished},
		{"volume", &f.Volume},
		{"etcd volume", &f.EtcdVolume},
		{"jobs", &f.Jobs},
		{"unit", &f.Unit},
		{"drift", &f.Drift},
	} {
		if got := f.First(); got == nil || got.Problem != step.want {
			t.Errorf("first %+v, want %s", got, step.want)
		}
		*step.repair = nil
	}

	if got := f.First(); got != nil {
		t.Errorf("with all repaired: %+v", got)
	}
}

func TestRefusalIsOfTheDocumentUnlessTheNodeIsBetweenTwo(t *testing.T) {
	err := &status.Error{}

	for _, tt := range []struct {
		name   string
		faults Faults
		want   status.Refusal
	}{
		{"nothing is wrong", Faults{}, ""},
		{"the document is wrong", Faults{}.refused(status.Invalid, err), status.Invalid},
		{"the node is between two generations", Faults{Unfinished: err}, status.NotApplied},
		{
			"both: the document is what an operator can repair",
			Faults{Unfinished: err}.refused(status.Reverted, err),
			status.Reverted,
		},
		{"the reset is what was refused", Faults{Unfinished: err}.refused("", err), ""},
		{"what was wrong is over", Faults{}.refused(status.Invalid, err).accepted(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.faults.refusal(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
