package cluster

import (
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
)

func TestNodeLeaseRenewals(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name     string
		gardener bool
		lease    *coordination.Lease
		since    time.Duration
		want     bool
	}{
		{"the first time", true, nil, 0, true},
		{"just renewed", true, &coordination.Lease{}, 0, false},
		{"renewed half a term ago", true, &coordination.Lease{}, 5 * second, false},
		{"almost due, as a step takes time", true, &coordination.Lease{}, 9950 * time.Millisecond, true},
		{"due", true, &coordination.Lease{}, 10 * second, true},
		{"after the clock was set back", true, &coordination.Lease{}, -time.Hour, true},
		{"not due outside of Gardener", false, &coordination.Lease{}, 59 * second, false},
		{"due outside of Gardener", false, &coordination.Lease{}, 60 * second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held := nodeLease{lease: tt.lease, renewed: noon}
			times := leaseTimesOf(Config{Gardener: tt.gardener})
			if got := held.isDue(noon.Add(tt.since), times); got != tt.want {
				t.Error(got)
			}
		})
	}
}

func TestLeaseOfANodeThatIsGone(t *testing.T) {
	w := newWorld()
	w.setNode(nil)
	held := nodeLease{lease: &coordination.Lease{}, renewed: noon}

	out, err := (&leaseController{held: &held}).step(t.Context(), &w)
	if out != (outcome{}) || err != nil || held.lease != nil {
		t.Errorf("%+v, %v, Lease %v", out, err, held.lease)
	}
}
