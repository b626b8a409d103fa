package upgrade_test

import (
	"errors"
	"io/fs"
	"path"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
)

// anchor is an Anchor; err is what it says instead.
type anchor struct {
	number int
	err    error
}

func (a *anchor) Read() (int, error) { return a.number, a.err }

// epochOf is a release of that epoch.
func epochOf(r release, epoch int) bundle.Index {
	r.index.Epoch = epoch
	return r.index
}

// TestTheAnchorOutlivesTheStatePartition brings two systems of epoch 3, and
// sets the state partition back.
func TestTheAnchorOutlivesTheStatePartition(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
	a := &anchor{}
	bring := func(i, epoch int) error {
		c.u.Anchor = a
		err := c.u.Begin(epochOf(c.releases[i], epoch), upgrade.Options{}, upgrade.Facts{})
		if err != nil {
			return err
		}

		c.run(upgrade.Verdict{})
		c.boot()
		c.u.Anchor = a
		c.run(upgrade.Verdict{Word: upgrade.Good})

		return nil
	}

	recorded := func() (e struct{ Floor int }) {
		t.Helper()
		if err := records.Load(c.recorder, epochFile, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	if err := bring(1, 3); err != nil || recorded().Floor != 0 {
		t.Fatalf("the way back has epoch 0: %+v, %v", recorded(), err)
	}
	if err := bring(2, 3); err != nil || recorded().Floor != 3 {
		t.Fatalf("both are of epoch 3: %+v, %v", recorded(), err)
	}
	a.number = 3 // /init does that.
	if err := c.recorder.Remove(epochFile); err != nil {
		t.Fatal(err)
	}

	_, err := c.u.Check(epochOf(c.releases[3], 2), upgrade.Options{}, upgrade.Facts{})
	refusedWith(t, err, fault.OldEpoch)
	if err := bring(3, 3); err != nil {
		t.Errorf("one of epoch 3: %v", err)
	}
}

// TestInitReadsTheRecord: what the upgrade writes is what /init raises the TPM's
// number to.
func TestInitReadsTheRecord(t *testing.T) {
	if got := path.Base(boot.EpochName); got != epochFile {
		t.Errorf("/init reads %s, want %s", got, epochFile)
	}
}

// TestABrokenAnchorHoldsNothingUp, and is reported once. A missing anchor is
// not reported.
func TestABrokenAnchorHoldsNothingUp(t *testing.T) {
	for err, told := range map[error]int{errors.New("it has failed"): 1, fs.ErrNotExist: 0} {
		c := newCourse(t, "1.0.0", "2.0.0")
		c.upgrade("2.0.0", upgrade.Options{})
		core, logs := observer.New(zap.WarnLevel)
		c.u.Log, c.u.Anchor = zap.New(core), &anchor{err: err}
		c.run(upgrade.Verdict{Word: upgrade.Good})

		for range 3 {
			if _, err := c.u.Check(epochOf(c.releases[0], 0), upgrade.Options{Downgrade: true},
				upgrade.Facts{}); err != nil {
				t.Error(err)
			}
		}

		if logs.Len() != told {
			t.Errorf("%v is told of %d times", err, logs.Len())
		}
	}
}
