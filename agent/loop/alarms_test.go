package loop

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarmsComeInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarms
		if a.c() != nil {
			t.Error("an alarm comes, and none is set")
		}
		a.soon(idleAlarm, time.Minute)
		a.soon(readAlarm, time.Second)
		a.soon(readAlarm, time.Hour) // It comes before that.
		a.soon(observeAlarm, time.Second)
		a.soon(startAlarm, 2*time.Second)
		a.clear(startAlarm)
		a.soon(probeAlarm, time.Hour)
		a.soon(probeAlarm, 3*time.Second)

		began := time.Now()
		for _, want := range []struct {
			after time.Duration
			come  []alarm
		}{
			{time.Second, []alarm{readAlarm, observeAlarm}},
			{3 * time.Second, []alarm{probeAlarm}},
			{time.Minute, []alarm{idleAlarm}},
		} {
			<-a.c()
			if come := a.due(); time.Since(began) != want.after || !slices.Equal(come, want.come) {
				t.Errorf("after %s: %v, want %v after %s",
					time.Since(began), come, want.come, want.after)
			}
		}
		if a.c() != nil || a.isSet(readAlarm) {
			t.Error("an alarm comes twice")
		}
	})
}
