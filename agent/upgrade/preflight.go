package upgrade

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/power"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/partitions/gpt"
)

// refuse returns why an upgrade is not begun. Nothing has been written.
func refuse(code fault.Code, advice, problem string, args ...any) error {
	err := fault.With(fmt.Errorf(problem, args...), code)
	if advice == "" {
		return err
	}
	return hint.With(err, "%s", advice)
}

// Room is what the disk has for another system. Sizes are in bytes.
type Room struct {
	// Root and Verity are the sizes of the partitions of a slot.
	Root, Verity int64
	// ESP is the free space of the ESP.
	ESP int64
	// Entries is how many more boot entries the ESP's directory takes.
	Entries int
	// State is the free space of the state partition, where the UKI is
	// assembled.
	State int64
	// OtherDisk says that the loader came from another disk.
	OtherDisk bool
	// Table is why the partition table, of which a copy is damaged, cannot be
	// repaired; nil if it is in order. A new system is marked in both copies.
	Table error
}

// Options say how an operator wants an upgrade.
type Options struct {
	// Ref is the repository of the release, for messages and for the next start.
	Ref string
	// Again tries a system that has failed before.
	Again bool
	// Now does not wait until the pace allows another upgrade.
	Now bool
	// Downgrade allows a release that is older than the running one.
	Downgrade bool
	// Stay leaves the restart to the operator.
	Stay bool
	// AtOnce does not wait for the window of restarts.
	AtOnce bool
}

// Facts are the inputs of Preflight besides the View.
type Facts struct {
	Arch    string
	ImageID string
	Room    Room
	// Epoch is the lowest security epoch that may run.
	Epoch int
	// Last is when the last upgrade began, the zero time if none did.
	Last time.Time
	// Pace is the least time between two.
	Pace time.Duration
	Now  time.Time
	// Firmware says which images the firmware starts.
	Firmware secureboot.State
	// PCRKey is the key that must have signed the UKI; see Boot.
	PCRKey string
	// Power says what the machine runs on.
	Power power.State
}

// minCharge is the percentage of a battery below which no upgrade begins,
// unless the machine has other power.
const minCharge = 30

// Preflight returns why an upgrade to the system of an index must not begin:
// nil, or an error with a code. Nothing has been written yet.
func Preflight(v View, f Facts, idx bundle.Index, w Options) error {
	target := System{idx.Version, idx.RootHash}
	for _, check := range []func() error{
		func() error { return fits(v, f, idx) },
		func() error { return allowed(v, f, idx, w) },
		func() error { return started(f.Firmware, idx.Version, idx.Authenticode) },
		func() error { return opensState(f.PCRKey, idx) },
		func() error { return powered(f.Power) },
		func() error { return free(v, target) },
	} {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}

// fits checks that the disk has room for the release.
func fits(v View, f Facts, idx bundle.Index) error {
	name := bootentry.Name{
		ImageID:   idx.ImageID,
		Version:   idx.Version,
		Arch:      bootentry.Arch(idx.Arch),
		Counted:   true,
		TriesLeft: Tries,
	}

	_, nameErr := bootentry.Format(name)
	labelErr := gpt.CheckLabel(idx.ImageID + "_" + idx.Version)
	what := idx.ImageID + " " + idx.Version

	space := f.Room.ESP
	for _, e := range v.Entries {
		if e.RootHash != v.Running.RootHash { // Its entry is removed first.
			space += e.Size
		}
	}

	switch r := f.Room; {
	case idx.Arch != f.Arch:
		return refuse(fault.WrongArchitecture, "a repository has one release for each architecture",
			"%s is for %s, this machine is %s", what, idx.Arch, f.Arch)
	case idx.ImageID != f.ImageID:
		return refuse(fault.WrongImage, "an upgrade brings another version of the same image",
			"%s is another image than %s", what, f.ImageID)
	case nameErr != nil:
		return refuse(fault.NameTooLong, "build it with a shorter or longer IMAGE_VERSION", "%v", nameErr)
	case labelErr != nil:
		return refuse(fault.LabelTooLong, "choose a shorter IMAGE_VERSION", "%v", labelErr)
	case idx.Root.Size > r.Root || idx.Verity.Size > r.Verity:
		return refuse(fault.SlotTooSmall, "a disk that was flashed with a larger layout has larger slots",
			"%s takes %d and %d MiB of a slot of %d and %d MiB", what, idx.Root.Size>>20,
			idx.Verity.Size>>20, r.Root>>20, r.Verity>>20)
	case r.OtherDisk:
		return otherDisk()
	case r.Table != nil:
		return refuse(fault.DiskError, "`dmesg` says more; the disk may be failing",
			"a damaged copy of the partition table cannot be repaired: %v", r.Table)
	case 2*idx.UKI.Size > space: // The recovery entry gets a copy.
		return espFull(space, 2*idx.UKI.Size)
	case r.Entries == 0:
		return directoryFull()
	case v.Journal == nil && idx.UKI.Size+recordsSize > r.State:
		// An upgrade under way has its files there already.
		return stateFull(r.State, idx.UKI.Size+recordsSize)
	}

	return nil
}

// recordsSize is the room for an index and the other records of an upgrade, in
// bytes.
const recordsSize = 8 << 20

// PreflightRollback returns why a node cannot roll back to the system in its
// other slot, which has that security epoch and UKI. What the firmware starts
// may have changed since that system ran.
func PreflightRollback(v View, f Facts, epoch int, uki *authenticode.Image) (System, error) {
	if j := v.Journal; j != nil && j.Drill == nil && !j.Rollback {
		return System{}, refuse(fault.UpgradeUnderWay,
			"`loam upgrade --cancel` ends it; the system that was in the slot is gone",
			"the other slot gets %s, which has not run yet", j.Target.Version)
	}

	e := find(v, v.Holds)
	again := v.Journal != nil && v.Journal.Rollback && v.Journal.Target.RootHash == v.Holds
	if v.Holds == "" || e == nil || e.ImageID != f.ImageID || (e.Counted && !e.Parked() && !again) {
		return System{}, refuse(fault.NoOtherSystem,
			"`loam upgrade --to VERSION --downgrade PERMIT` brings one",
			"the other slot holds no system that this node has run")
	}

	target := System{e.Version, v.Holds}
	switch r := f.Room; {
	case epoch < f.Epoch:
		return target, tooOld(target.Version, epoch, f.Epoch)
	case r.OtherDisk:
		return target, otherDisk()
	case r.Entries == 0:
		return target, directoryFull()
	}

	if r := cmp.Or(started(f.Firmware, target.Version, uki), free(v, target)); r != nil {
		return target, r
	}

	return target, nil
}

// started checks that the firmware would start a UKI. Nothing is known about a
// nil UKI.
func started(by secureboot.State, version string, uki *authenticode.Image) error {
	if uki == nil {
		return nil
	}

	switch err := by.Check(*uki); {
	case err == nil:
		return nil
	case errors.Is(err, secureboot.ErrUnsigned):
		return refuse(fault.UKINotSigned,
			"Secure Boot is on: `loamctl build --sign-key KEY --sign-certificate CERT` makes a "+
				"release that is signed", "the UKI of %s: %v", version, err)
	case errors.Is(err, secureboot.ErrForbidden):
		return refuse(fault.ForbiddenByDBX, "it, or who has signed it, was revoked: take another release",
			"the UKI of %s: %v", version, err)
	default:
		return refuse(fault.NotInDB,
			"Secure Boot is on: enroll the certificate in the firmware first",
			"the UKI of %s: %v", version, err)
	}
}

// opensState checks that the release will open the encrypted state.
func opensState(key string, idx bundle.Index) error {
	if key == "" || slices.Contains(idx.PCRKeys, key) {
		return nil
	}
	return refuse(fault.PCRNotSigned, "`loamctl sign --pcr-key` signs a release with that key",
		"the UKI of %s: it is not signed for PCR 11 by key %.12s, so the TPM would not open the "+
			"encrypted state", idx.Version, key)
}

// powered checks that the machine will not run out of power, as far as that is
// known.
func powered(s power.State) error {
	if !s.OnBattery || s.Charge < 0 || s.Charge >= minCharge {
		return nil
	}
	return refuse(fault.BatteryLow, fmt.Sprintf("plug it in, or charge it to %d %%", minCharge),
		"the machine runs on a battery that is at %d %%", s.Charge)
}

// onTrialAlready refuses what would be against the system that is on trial.
func onTrialAlready(s System) error {
	return refuse(fault.UpgradeOnTrial,
		"`loam status` says what the trial waits for; `loam rollback --os` ends it",
		"%s runs already, on trial", s.Version)
}

func tooOld(version string, epoch, floor int) error {
	return refuse(fault.OldEpoch, "a release of an older epoch has a hole that was closed since",
		"%s has security epoch %d, this node runs none below %d", version, epoch, floor)
}

func otherDisk() error {
	return refuse(fault.OtherDisk, "unplug the other disk, or have the firmware boot from this one",
		"the boot loader came from another disk than the running system")
}

func espFull(free, size int64) error {
	return refuse(fault.ESPFull, "take away what is not Loam's on it",
		"the ESP has %d MiB free, this takes %d", free>>20, size>>20)
}

func stateFull(free, size int64) error {
	return refuse(fault.StateFull, "see what takes the room: du -x /var",
		"the state partition has %d MiB free, this takes %d", free>>20, size>>20)
}

func directoryFull() error {
	return refuse(fault.DirectoryFull, "flash the machine again: its ESP has had some hundred upgrades",
		"the directory of boot entries is full")
}

// allowed checks that the release may run on this node.
func allowed(v View, f Facts, idx bundle.Index, w Options) error {
	at := slices.IndexFunc(v.Failed, func(b Failure) bool { return b.RootHash == idx.RootHash })
	older := bootentry.CompareVersions(idx.Version, v.Running.Version) < 0
	switch {
	case idx.RootHash == v.Running.RootHash:
		return refuse(fault.AlreadyRunning, "", "%s runs already", idx.Version)
	case idx.Version == v.Running.Version:
		return refuse(fault.AlreadyRunning, "a version names one system: build it with another IMAGE_VERSION",
			"another system of the same version %s runs", idx.Version)
	case idx.Epoch < f.Epoch:
		return tooOld(idx.Version, idx.Epoch, f.Epoch)
	case at >= 0 && !w.Again:
		return refuse(fault.FailedBefore, "`loam why` tells more; --again tries it once more",
			"%s failed here on %s: %s", idx.Version, v.Failed[at].At.UTC().Format(time.DateTime),
			v.Failed[at].Reason)
	case older && !w.Downgrade:
		return refuse(fault.Downgrade,
			permitHint(idx.Version)+"; `loam rollback --os` goes back to the system in the other "+
				"slot without one", "%s is older than %s, which runs", idx.Version,
			v.Running.Version)
	case fetching(v):
		// The last upgrade has not come to a restart.
	case !f.Last.IsZero() && f.Now.Before(f.Last.Add(f.Pace)) && !f.Now.Before(f.Last) && !w.Now:
		return refuse(fault.TooSoon, "--now does not wait",
			"the last upgrade began %s ago, there are %s between two",
			f.Now.Sub(f.Last).Round(time.Second), f.Pace)
	}

	return nil
}

// fetching reports whether an upgrade has not got all of its release yet.
func fetching(v View) bool {
	return v.Journal != nil && v.Journal.Drill == nil && v.Journal.Phase == Staging
}

// Permitted reports whether a permit allows a release on a node; nil is no
// permit.
func Permitted(news repository.News, permit []byte, idx bundle.Index, node string) (bool, error) {
	if permit == nil {
		return false, nil
	}

	p, err := news.Permit(permit)
	switch {
	case err != nil:
		return false, refuse(fault.NoSuchPermit, permitHint(idx.Version), "%v", err)
	case p.ImageID != idx.ImageID || p.Version != idx.Version:
		return false, refuse(fault.NoSuchPermit, permitHint(idx.Version),
			"the permit is for %s %s, not for %s %s", p.ImageID, p.Version,
			idx.ImageID, idx.Version)
	case p.Node != "" && p.Node != node:
		return false, refuse(fault.NoSuchPermit, permitHint(idx.Version),
			"the permit is for node %s, not for %s", p.Node, node)
	}

	return true, nil
}

func permitHint(version string) string {
	return "`loamctl permit --repository DIR --keys DIR --version " + version +
		"` signs a permit, which --downgrade takes"
}

// free checks that nothing else is under way.
func free(v View, target System) error {
	run := find(v, v.Running.RootHash)
	j := v.Journal
	switch {
	case j != nil && j.Drill == nil && j.Target == v.Running && j.Target != target:
		return onTrialAlready(j.Target)
	case j != nil && j.Phase == Armed && j.Target != target:
		return refuse(fault.UpgradeUnderWay,
			"restart the machine to try it, or end it with `loam upgrade --cancel`",
			"the upgrade to %s is armed", j.Target.Version)
	case run == nil:
		return refuse(fault.NoBootEntry, "was it started by PXE, or from another disk?",
			"the running system has no boot entry on the ESP")
	case run.ImageID == "":
		return refuse(fault.NoBootEntry, "name it as IMAGE-ID_VERSION_ARCH.efi",
			"the boot entry of the running system is called %s", run.File)
	case run.Counted && !run.Parked():
		return refuse(fault.Unproven, "`loam status` says what it waits for",
			"the running system has not proved itself yet")
	}

	return nil
}
