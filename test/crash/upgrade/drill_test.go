package upgrade_test

import (
	"testing"
	"time"

	"github.com/loam-os/loam/agent/upgrade"
)

func TestADrillFailsHoweverTheNodeIs(t *testing.T) {
	c := newCourse(t, "1.0.0")
	if err := c.u.Drill(upgrade.DrillCheck, false); err != nil {
		t.Fatal(err)
	}

	trial, err := upgrade.TrialOf(c.u.Records, c.u.Boot.Running, time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	for _, look := range []struct {
		now  upgrade.Health
		at   time.Duration
		want upgrade.Word
	}{
		{nil, 20 * time.Second, upgrade.Wait},
		{upgrade.Health{"node": {State: upgrade.Unclear}}, 70 * time.Second, upgrade.Wait},
		{upgrade.Health{"drill": {State: upgrade.Well}}, 81 * time.Second, upgrade.Bad},
	} {
		if v := trial.Judge(look.now, look.at); v.Word != look.want {
			t.Errorf("at %s: %v", look.at, v)
		}
	}
}
