package upgrade

import (
	"errors"
	"io/fs"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/image/bundle"
)

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
		if e = e.with(step.running, step.epoch, step.other); e.Floor != step.floor {
			t.Errorf("%s: floor %d, want %d", step.name, e.Floor, step.floor)
		}
	}
}

// anchor is an Anchor; err is what it says instead.
type anchor struct {
	number int
	err    error
}

func (a *anchor) Read() (int, error) { return a.number, a.err }
func (a *anchor) Raise(to int) error {
	if a.err == nil {
		a.number = max(a.number, to)
	}
	return a.err
}

// epochOf is a release of that epoch.
func epochOf(r release, epoch int) bundle.Index {
	r.index.Epoch = epoch
	return r.index
}

// TestTheAnchorOutlivesTheStatePartition brings two systems of epoch 3, and sets the state partition back.
func TestTheAnchorOutlivesTheStatePartition(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
	a := &anchor{}
	bring := func(i, epoch int) error {
		c.u.Anchor = a
		if err := c.u.Begin(epochOf(c.releases[i], epoch), Wish{}, Facts{}); err != nil {
			return err
		}
		c.run(Verdict{})
		c.boot()
		c.u.Anchor = a
		c.run(Verdict{Word: Good})
		return nil
	}
	if err := bring(1, 3); err != nil || a.number != 0 {
		t.Fatalf("the way back is of epoch 0: %d, %v", a.number, err)
	}
	if err := bring(2, 3); err != nil || a.number != 3 {
		t.Fatalf("both are of epoch 3: %d, %v", a.number, err)
	}
	if err := c.recorder.Remove(epochName); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, c.u.Check(epochOf(c.releases[3], 2), Wish{}, Facts{}), CodeEpoch)
	if err := bring(3, 3); err != nil || a.number != 3 {
		t.Errorf("one of epoch 3: %d, %v", a.number, err)
	}
}

// TestABrokenAnchorHoldsNothingUp, and is told of once; one that is not there is not.
func TestABrokenAnchorHoldsNothingUp(t *testing.T) {
	for err, told := range map[error]int{errors.New("it has failed"): 1, fs.ErrNotExist: 0} {
		c := newCourse(t, "1.0.0", "2.0.0")
		c.upgrade("2.0.0", Wish{})
		core, logs := observer.New(zap.WarnLevel)
		c.u.Log, c.u.Anchor = zap.New(core), &anchor{err: err}
		c.run(Verdict{Word: Good})
		for range 3 {
			if err := c.u.Check(epochOf(c.releases[0], 0), Wish{Downgrade: true}, Facts{}); err != nil {
				t.Error(err)
			}
		}
		if logs.Len() != told {
			t.Errorf("%v is told of %d times", err, logs.Len())
		}
	}
}
