package upgrade

import "testing"

func TestTheFloorRisesWhenBothSlotsHaveIt(t *testing.T) {
	var e epochs

	for _, step := range []struct {
		name, running string
		epoch         int
		other         string
		floor         int
	}{
		{"the first upgrade, from an image of which nothing is known", "b", 3, "a", 0},
		{"the next: both are of epoch 3", "c", 3, "b", 3},
		{"a higher one: the way back stays", "d", 5, "c", 3},
		{"the same twice", "e", 5, "d", 5},
		{"the other slot is empty", "f", 7, "", 7},
		{"an unknown system in the other slot lowers nothing", "g", 9, "x", 7},
	} {
		e = e.with(step.running, step.epoch, step.other)
		if e.Floor != step.floor {
			t.Errorf("%s: floor %d, want %d", step.name, e.Floor, step.floor)
		}
	}
}
