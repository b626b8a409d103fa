package cluster

import (
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
)

func TestWhenTheNodesLeaseIsRenewed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lease *coordination.Lease
		since time.Duration
		want  bool
	}{
		{"the first time", nil, 0, true},
		{"just renewed", &coordination.Lease{}, 0, false},
		{"renewed half a term ago", &coordination.Lease{}, 5 * time.Second, false},
		{"almost due, as a step takes time", &coordination.Lease{}, 9950 * time.Millisecond, true},
		{"due", &coordination.Lease{}, 10 * time.Second, true},
		{"after the clock was set back", &coordination.Lease{}, -time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held := nodeLease{lease: tt.lease, renewed: noon}
			if got := held.isDue(noon.Add(tt.since)); got != tt.want {
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
