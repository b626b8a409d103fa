package upgrade

import (
	"fmt"
	"os"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint/fault"
)

// A drill shows on this very machine that it leaves a system which fails:
// another entry of the running system, with tries, is booted and fails on
// purpose. Firmware, loader and ESP do what they would do for another system.
// No slot is written.
const (
	// DrillCheck fails by a check that is never well, DrillPanic by a kernel
	// panic in each try.
	DrillCheck = "check"
	DrillPanic = "panic"
)

// drillName is the file that has the result of the last drill.
const drillName = "upgrade-drill.json"

// Drill is the result of a drill.
type Drill = status.Drill

// preflightDrill returns why there cannot be a drill: nil or an error with a
// code.
func preflightDrill(v View, f Facts) error {
	if r := free(v, v.Running); r != nil {
		return r
	}

	if v.Journal != nil {
		return refuse(fault.UpgradeUnderWay, "a drill waits for its end",
			"the upgrade to %s is under way", v.Journal.Target.Version)
	}

	run := find(v, v.Running.RootHash)
	for _, e := range v.Entries {
		if e.RootHash != run.RootHash &&
			(e.ImageID != run.ImageID || bootentry.Compare(parked(e.Name), parked(run.Name)) < 0) {
			return refuse(fault.NewerInOtherSlot,
				"`loam rollback --os` starts "+e.Version+", where a drill works; or upgrade to "+
					"another release, which replaces it",
				"the other slot has %s, as after a rollback, and the loader would fall back to it "+
					"(%s) instead of to the running %s", e.Version, e.File, v.Running.Version)
		}
	}

	switch {
	case f.Room.OtherDisk:
		return otherDisk()
	case f.Room.Entries == 0:
		return directoryFull()
	case run.Size > f.Room.ESP:
		return espFull(f.Room.ESP, run.Size)
	}

	return nil
}

// parked returns the name of a parked entry.
func parked(n bootentry.Name) bootentry.Name {
	n.Counted = true
	n.TriesLeft = 0
	n.TriesDone = 0
	return n
}

// Drilling is a drill under way.
type Drilling struct {
	By string `json:"by"`

	// Last is the name that the failing entry had when this boot was first
	// observed; Tried says that this is a boot of the failing entry.
	Last  string `json:"last,omitempty"`
	Tried bool   `json:"tried,omitempty"`

	// Boots is how often the failing entry was booted.
	Boots int `json:"boots,omitempty"`

	// Left is when the failing entry was made.
	Left time.Time `json:"left,omitzero"`
}

// drill returns the next step of a drill. All other entries are parked
// meanwhile: then the loader starts the failing entry, and after that the
// newest of the others, which is the running system's.
func drill(v View) Op {
	j := v.Journal
	safe, e := drilled(v)
	switch {
	case j.Phase == Over:
		return afterDrill(v, e)
	case v.Running != j.Target:
		return Op{Kind: Conclude, Reason: "the loader has started " + v.Running.Version}
	case safe == nil:
		return Op{Kind: Nothing, Reason: "the running system has no boot entry"}
	case e == nil && !v.StagedUKI:
		return Op{Kind: CopyUKI}
	case j.Phase != Armed:
		return Op{Kind: Arm}
	case e == nil:
		return Op{Kind: Link, To: v.Entry}
	case !j.Drill.Tried && e.Bad():
		return Op{Kind: Conclude}
	case !j.Drill.Tried && j.Missed >= maxMissed:
		return Op{Kind: Conclude, Reason: NotStarted}
	case !j.Drill.Tried:
		for _, o := range v.Entries {
			if o.RootHash != j.Target.RootHash && o.ImageID != "" && !o.Parked() {
				return park(o, "the loader would fall back to it")
			}
		}
		if !safe.Parked() {
			return park(*safe, "the loader starts the first of two that are alike")
		}
		return Op{Kind: Reboot, Reason: "to fail in a drill"}
	case j.Drill.By == DrillPanic:
		return Op{Kind: Crash}
	}

	return judged(v, *e)
}

// afterDrill restores the entries as they were.
func afterDrill(v View, e *disk.Entry) Op {
	if e != nil {
		return Op{Kind: Drop, File: e.File, Reason: "the drill is over"}
	}
	for _, hash := range []string{v.Journal.Target.RootHash, ""} {
		for _, o := range v.Entries {
			if o.Parked() && (hash == "" || o.RootHash == hash) {
				return unpark(o)
			}
		}
	}
	return Op{Kind: Finish, Reason: "the drill is over"}
}

// drilled returns the two entries of the system in a drill: the safe one, to
// which the loader falls back, and the failing one. Either is nil if it is
// absent.
func drilled(v View) (safe, failing *disk.Entry) {
	for i, e := range v.Entries {
		switch {
		case e.RootHash != v.Journal.Target.RootHash || e.Orphan:
		case e.Counted && !e.Parked():
			failing = &v.Entries[i]
		default:
			safe = &v.Entries[i]
		}
	}
	return safe, failing
}

// drillKeeper keeps the journal of a drill.
type drillKeeper struct {
	records records.Store
	bootID  string
	now     func() time.Time
}

// follow records, once in each boot, whether this is a boot of the failing
// entry: then the loader has counted a try.
func (k drillKeeper) follow(v View) error {
	j := v.Journal
	if j == nil || j.Drill == nil || j.Phase != Armed || j.Boot == k.bootID {
		return nil
	}

	_, e := drilled(v)
	if e == nil {
		return nil
	}

	j.Drill.Tried = e.File != j.Drill.Last
	if j.Drill.Tried {
		j.Drill.Boots = e.TriesDone
	} else {
		j.Missed++
	}

	j.Boot = k.bootID
	j.Drill.Last = e.File
	return records.Save(k.records, journalName, j)
}

// rename records the name that the upgrader is about to give the failing entry.
func (k drillKeeper) rename(j *Journal, name string) error {
	if j == nil || j.Drill == nil {
		return nil
	}
	j.Drill.Last = name
	if j.Drill.Left.IsZero() {
		j.Drill.Left = k.now().UTC()
	}
	return records.Save(k.records, journalName, j)
}

// conclude records how the drill went.
func (k drillKeeper) conclude(j Journal, problem string) error {
	d := Drill{
		By:      j.Drill.By,
		At:      k.now().UTC().Truncate(time.Second),
		Problem: problem,
		Hint:    HintOf(problem),
	}
	if problem == "" {
		d.Boots = j.Drill.Boots
		d.Took = status.Duration(max(0, k.now().Sub(j.Drill.Left)).Round(time.Second))
	}

	if err := records.Save(k.records, drillName, d); err != nil {
		return err
	}

	j.Phase = Over
	return records.Save(k.records, journalName, j)
}

// The health before a drill, and in it.
var (
	beforeDrill = Health{"drill": {State: Well}}
	inDrill     = Health{"drill": {State: Ill, Detail: "it fails on purpose"}}
)

// LastDrill returns the result of the last drill, nil if there was no drill.
func LastDrill(s records.Store) (*Drill, error) {
	var d Drill
	if err := records.Load(s, drillName, &d); err != nil || d.At.IsZero() {
		return nil, err
	}
	return &d, nil
}

// Panic makes the kernel panic (Documentation/admin-guide/sysrq.rst).
func Panic() error {
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0); err != nil {
		return fmt.Errorf("have the kernel panic: %w", err)
	}
	return nil
}
