package upgrade

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/power"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
)

// Begin begins an upgrade to the system of an index, unless there is a reason
// against it.
func (u *Upgrader) Begin(idx bundle.Index, w Options, f Facts) error {
	v, err := u.Check(idx, w, f)
	if err != nil {
		return err
	}

	text, err := idx.Encode()
	if err != nil {
		return err
	}

	return u.begin(v, text, Journal{
		Target: System{idx.Version, idx.RootHash},
		Ref:    w.Ref,
		Epoch:  idx.Epoch,
		Stay:   w.Stay,
		AtOnce: w.AtOnce,
	})
}

// Check returns why Begin would refuse, and what it decides on. It changes
// nothing, but it repairs a damaged partition table.
func (u *Upgrader) Check(idx bundle.Index, w Options, f Facts) (View, error) {
	v, err := u.observe(&f)
	if err != nil {
		return v, err
	}

	f.Firmware, err = secureboot.Observe(u.Sys)
	if err != nil {
		return v, err
	}

	f.Power, err = power.Observe(u.Sys)
	if err != nil {
		return v, err
	}

	return v, Preflight(v, f, idx, w)
}

// Rollback begins the way back to the system in the other slot, unless there is
// a reason against it, and returns that system. With plan it changes nothing.
func (u *Upgrader) Rollback(w Options, plan bool) (target System, err error) {
	var f Facts
	v, err := u.observe(&f)
	if err != nil {
		return target, err
	}

	e, err := readEpochs(u.Records)
	if err != nil {
		return target, err
	}

	f.Firmware, err = secureboot.Observe(u.Sys)
	if err != nil {
		return target, err
	}

	var uki *authenticode.Image
	if f.Firmware.On {
		uki, err = otherUKI(u.Disk, v)
	}
	if err != nil {
		return target, err
	}

	epoch := e.Of[v.Holds]
	target, err = PreflightRollback(v, f, epoch, uki)
	if err != nil || plan {
		return target, err
	}

	return target, u.begin(v, nil, Journal{
		Target:   target,
		Epoch:    epoch,
		Stay:     w.Stay,
		AtOnce:   true,
		Rollback: true,
	})
}

// otherUKI returns the UKI of the system in the other slot, nil if there is no
// such system.
func otherUKI(on disk.Disk, v View) (im *authenticode.Image, err error) {
	e := find(v, v.Holds)
	if v.Holds == "" || e == nil {
		return nil, nil
	}

	esp, err := on.OpenESP()
	if err != nil {
		return nil, err
	}

	im, err = esp.Image(e)
	return im, errors.Join(err, esp.Close())
}

// Drill begins a drill, unless there is a reason against it. With plan it
// changes nothing.
func (u *Upgrader) Drill(by string, plan bool) error {
	if by != DrillCheck && by != DrillPanic {
		return refuse(fault.NoSuchDrill, "want "+DrillCheck+" or "+DrillPanic,
			"a drill by %.40q", by)
	}

	var f Facts
	v, err := u.observe(&f)
	if err != nil {
		return err
	}
	if err := preflightDrill(v, f); err != nil || plan {
		return err
	}

	return u.begin(v, nil, Journal{
		Target: u.Boot.Running,
		AtOnce: true,
		Drill:  &Drilling{By: by},
	})
}

// begin writes the journal. A slot that was verified for another upgrade counts
// no longer.
func (u *Upgrader) begin(v View, index []byte, j Journal) error {
	fresh, err := u.writers().journal.begin(v, index, j)
	if fresh {
		u.filled = false
	}
	return err
}

// Cancel ends the upgrade under way before the machine restarts with it, and
// returns its system. [Upgrader.Run] then takes away what is there of it.
func (u *Upgrader) Cancel() (System, error) { return u.writers().journal.cancel() }

// HandOver hands the configuration to the armed system once more, as arming did. It
// does nothing if no system is armed.
func (u *Upgrader) HandOver() error {
	j, err := u.writers().journal.armed()
	if err != nil || j == nil {
		return nil
	}
	return u.Host.HandOver(j.Target.Version, j.Rollback)
}

// RenewBaseline records the health of the node once more, if a system is armed: it may
// have waited for days.
func (u *Upgrader) RenewBaseline(ctx context.Context) error {
	return u.writers().journal.renewBaseline(ctx, u.Host)
}

// RepairTable repairs a damaged partition table: the next start needs it.
func (u *Upgrader) RepairTable() error {
	_, err := u.Disk.RepairTable()
	return err
}

// CheckESP looks for damage on the ESP, and repairs what it can. It does
// nothing while an upgrade is under way, which writes to the ESP itself.
func (u *Upgrader) CheckESP() (disk.ESPReport, error) {
	j, err := u.writers().journal.read()
	if err != nil || j != nil {
		return disk.ESPReport{}, err
	}

	// The check needs readable records, as an upgrade does.
	if _, err := Failures(u.Records); err != nil {
		return disk.ESPReport{}, err
	}

	// Best effort: without it, the loader on the ESP is not looked at.
	own, err := u.Host.Loader()
	if err != nil {
		own = nil
	}

	return disk.ESPCheck{
		Slot:    u.writers().slot,
		Sys:     u.Sys,
		ImageID: u.Boot.ImageID,
		Entry:   View{Entry: u.Boot.Entry}.entryToMake(),
		Loader:  own,
	}.Run()
}

// Other returns the version of the system in the other slot, "" if it holds none or
// cannot be read.
func (u *Upgrader) Other() string { return u.writers().slot.Version(u.Boot.ImageID) }
