package local

import (
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
)

func TestTheAddressStays(t *testing.T) {
	uptime := time.Hour
	n := newNode(t, plane.Settings{})
	n.Uptime = func() time.Duration { return uptime }

	for _, row := range []struct {
		name    string
		present []string
		uptime  time.Duration
		want    string
	}{
		{"the best one at first", []string{"192.0.2.10", "192.0.2.11"}, time.Hour, "192.0.2.10"},
		{"the same when another is better", []string{"192.0.2.11", "192.0.2.10"}, 0, "192.0.2.10"},
		{"none while the machine starts without it", []string{"192.0.2.11"}, time.Second, ""},
		{"another when it is gone", []string{"192.0.2.11"}, time.Hour, "192.0.2.11"},
		{"that one from then on", []string{"192.0.2.10", "192.0.2.11"}, time.Hour, "192.0.2.11"},
	} {
		n.has(row.present...)
		uptime = row.uptime
		d, err := n.decode(t)
		unit := textOf(t, d, "kube-apiserver.service")
		if (err != nil) != (row.want == "") ||
			(!strings.Contains(unit, "--advertise-address="+row.want+" ") && row.want != "") {
			t.Errorf("%s: %v\n%s", row.name, err, unit)
		}
	}
}
