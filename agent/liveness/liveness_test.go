package liveness_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/status"
)

// letters are observations of a unit: it answers (.), fails (x), is down (-),
// or is not part of the generation (0).
var letters = map[rune]liveness.Standing{
	'.': liveness.Up,
	'x': liveness.Up,
	'-': liveness.Down,
	'0': liveness.Absent,
}

// marks abbreviate words: ! failing, R restart, + recovered.
var marks = map[liveness.Word]string{
	liveness.Nothing:   " ",
	liveness.Failing:   "!",
	liveness.Restart:   "R",
	liveness.Recovered: "+",
}

func TestNext(t *testing.T) {
	for _, test := range []struct{ name, looks, want string }{
		{"a unit that answers", "....", "    "},
		{"one failure is reported, and that it is over", ".x.", " !+"},
		{"a minute of failures is a restart", "xxx.", "! R+"},
		{"the first minute is counted from the last answer", "xx.xx.xxx", "! +! +! R"},
		{"a failure is reported once", "xx-x", "!   "},
		{"restarts that do not help get rarer", "xxxxxxxxxxxxxxx", "! R   R       R"},
		{"and stay at eight minutes", "xxxxxxxxxxxxxxx" + "xxxxxxxxxxxxxxxx" + "xxxxxxxxxxxxxxxx",
			"! R   R       R" + "               R" + "               R"},
		{"after an answer they count from the start", "xxxxxxx.xxx", "! R   R+! R"},
		{"a unit that is down is not restarted", "xx-----", "!      "},
		{"what it does when it is back begins a new minute", "xx-xx.", "!    +"},
		{"a restart that is seen is no recovery yet", "xxx--.", "! R  +"},
		{"a restart that is seen and did not help", "xxx-xxxxx", "! R     R"},
		{"a unit that left the generation is forgotten", "xxx0.", "! R  "},
		{"and new when it is back", "xx0xxx", "!  ! R"},
		{"a unit that never was", "000", "   "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got strings.Builder
			var h liveness.Health
			for _, look := range test.looks {
				var failed error
				if look == 'x' {
					failed = errors.New("no answer")
				}
				var word liveness.Word
				h, word = liveness.Next(h, letters[look], failed, 2)
				got.WriteString(marks[word])
			}

			if diff := cmp.Diff(test.want, got.String()); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.looks, diff)
			}
		})
	}
}

func TestStandingOf(t *testing.T) {
	kubelet := func(active string) []status.Unit {
		return []status.Unit{{Name: "kubelet.service", Active: active}}
	}

	for _, test := range []struct {
		name   string
		status status.Status
		want   liveness.Standing
	}{
		{"no generation", status.Status{}, liveness.Absent},
		{
			"a generation without it",
			status.Status{Units: []status.Unit{{Name: "a.service", Active: "active"}}},
			liveness.Absent,
		},
		{"up", status.Status{Phase: status.Applied, Units: kubelet("active")}, liveness.Up},
		{
			"up on a node that another unit keeps from being well",
			status.Status{Phase: status.Failed, Units: kubelet("active")},
			liveness.Up,
		},
		{
			"up while a change is applied",
			status.Status{Phase: status.Applying, Units: kubelet("active")},
			liveness.Down,
		},
		{"on its way", status.Status{Units: kubelet("activating")}, liveness.Down},
		{"failed", status.Status{Units: kubelet("failed")}, liveness.Down},
		{"stopped by an operator", status.Status{Units: kubelet("inactive")}, liveness.Down},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := liveness.StandingOf("kubelet.service", test.status); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
