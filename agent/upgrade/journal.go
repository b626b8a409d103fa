package upgrade

import (
	"context"
	"time"

	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/hint/fault"
)

// Phase is the stage of an upgrade.
type Phase string

const (
	// Staging fills the slot. Nothing boots from it.
	Staging Phase = "staging"
	// Armed has, or is about to have, a boot entry.
	Armed Phase = "armed"
	// Over is a drill that has been concluded.
	Over Phase = "over"
)

// Journal is the upgrade under way, in /var/lib/loam/upgrade.json.
type Journal struct {
	Phase  Phase  `json:"phase"`
	Target System `json:"target"`

	// From is the system that began the upgrade, and the fallback.
	From System `json:"from"`

	// Ref is where the index that describes Target was.
	Ref string `json:"ref"`

	// Replaces is the root hash of the system that the slot held, "" if none is
	// known.
	Replaces string `json:"replaces,omitempty"`

	// Boot is the kernel's ID of the last boot of From.
	Boot string `json:"boot,omitempty"`
	// FromBoots are the IDs of all boots of From since the upgrade was armed,
	// starting with the boot that armed it.
	FromBoots []string `json:"fromBoots,omitempty"`
	// Missed is how many boots of From there were since the entry was made that
	// the loader had not tried it before.
	Missed int `json:"missed,omitempty"`
	// Baseline is the health of From when the upgrade was armed.
	Baseline Health `json:"baseline,omitempty"`

	// Began is the wall clock when the upgrade began.
	Began time.Time `json:"began"`
	// Epoch is the security epoch of Target.
	Epoch int `json:"epoch"`
	// Stay leaves the restart to the operator.
	Stay bool `json:"stay,omitempty"`

	// Rollback uses Target as it is in its slot, with its own configuration.
	Rollback bool `json:"back,omitempty"`

	// AtOnce does not wait for the window of restarts.
	AtOnce bool `json:"atOnce,omitempty"`

	// Present says that Target had a boot entry when the upgrade began: it
	// stays a system to roll back to if the upgrade is canceled.
	Present bool `json:"present,omitempty"`
	// Canceled says that an operator does not want the upgrade any more.
	Canceled bool `json:"canceled,omitempty"`

	// Drill is set during a drill. Target is From then.
	Drill *Drilling `json:"drill,omitempty"`

	// Reason is why Target failed, as it said itself; "" if it could not.
	Reason string `json:"reason,omitempty"`
}

// ReadJournal returns the upgrade under way, nil if no upgrade is under way. An
// unreadable journal counts as absent: the disk tells the rest.
func ReadJournal(s records.Store) (*Journal, error) {
	var j Journal
	err := records.Load(s, journalName, &j)
	if err != nil || j.Target.RootHash == "" || j.From.RootHash == "" {
		return nil, err
	}
	return &j, nil
}

// TrialOf returns the judge of the running system, with the baseline from the
// journal. limit is how long the system may take.
func TrialOf(s records.Store, running System, limit time.Duration) (*Trial, error) {
	j, err := ReadJournal(s)
	if err != nil || j == nil || j.Target != running {
		return &Trial{Limit: limit}, err
	}
	if j.Drill != nil {
		return &Trial{Baseline: beforeDrill, Drill: true}, nil
	}
	return &Trial{Baseline: j.Baseline, Limit: limit}, nil
}

// journalKeeper writes the journal of the upgrade under way.
type journalKeeper struct {
	records records.Store
	boot    Boot
	now     func() time.Time
}

// begin writes the journal of an upgrade, and its index, nil without. A second
// request for the same target continues the upgrade, with the new index: fresh
// is false then.
func (k journalKeeper) begin(v View, index []byte, j Journal) (fresh bool, err error) {
	if now := v.Journal; now != nil && now.Target == j.Target && now.Rollback == j.Rollback {
		now.Stay = j.Stay
		now.AtOnce = j.AtOnce
		now.Ref = j.Ref
		now.Canceled = false
		now.Epoch = j.Epoch

		if err := k.describe(index); err != nil {
			return false, err
		}

		return false, records.Save(k.records, journalName, now)
	}

	// An upgrade that is not armed makes room. Its index means nothing without
	// a journal.
	if err := k.records.Remove(journalName); err != nil {
		return false, err
	}
	if err := Forget(k.records, j.Target.RootHash); err != nil {
		return false, err
	}
	if err := k.describe(index); err != nil {
		return false, err
	}

	if j.Drill == nil { // A drill is no upgrade.
		if err := records.Save(k.records, lastName, k.now().UTC()); err != nil {
			return false, err
		}
	}

	j.Phase = Staging
	j.Present = find(v, j.Target.RootHash) != nil
	j.From = k.boot.Running
	j.Began = k.now().UTC().Truncate(time.Second)
	return true, records.Save(k.records, journalName, j)
}

// describe writes the index of the target, or removes the old one.
func (k journalKeeper) describe(index []byte) error {
	if index == nil {
		return k.records.Remove(indexName)
	}
	return k.records.Write(indexName, index)
}

// read returns the upgrade under way. It counts the boots of the old system
// since the upgrade was armed: each should have been a boot of the new one.
func (k journalKeeper) read() (*Journal, error) {
	j, err := ReadJournal(k.records)
	if err != nil || j == nil || j.Phase != Armed || j.Drill != nil ||
		j.From != k.boot.Running || j.Boot == k.boot.ID {
		return j, err
	}

	j.Boot = k.boot.ID
	j.FromBoots = append(j.FromBoots, k.boot.ID)
	j.Missed++
	return j, records.Save(k.records, journalName, j)
}

// arm records the health of the node, as the baseline of the trial, and hands
// the configuration over.
func (k journalKeeper) arm(ctx context.Context, j Journal, host Host) error {
	j.Phase = Armed
	j.Boot = k.boot.ID
	j.FromBoots = []string{k.boot.ID}

	if j.Drill != nil {
		return records.Save(k.records, journalName, j)
	}

	err := host.HandOver(j.Target.Version, j.Rollback)
	if err != nil {
		return err
	}

	j.Baseline, err = baseline(ctx, host.Health)
	if err != nil {
		return err
	}

	return records.Save(k.records, journalName, j)
}

// armed returns the upgrade that the running system has armed, nil if there is
// no such upgrade.
func (k journalKeeper) armed() (*Journal, error) {
	j, err := ReadJournal(k.records)
	if err != nil || j == nil || j.Phase != Armed || j.From != k.boot.Running || j.Drill != nil {
		return nil, err
	}
	return j, nil
}

// renewBaseline records the health again before the restart: an armed upgrade
// may have waited for days.
func (k journalKeeper) renewBaseline(ctx context.Context, host Host) error {
	j, err := k.armed()
	if err != nil || j == nil {
		return err
	}

	j.Baseline, err = baseline(ctx, host.Health)
	if err != nil {
		return err
	}

	return records.Save(k.records, journalName, j)
}

// resetMissed starts the count of missed boots again, because the loader could
// not start the target before now.
func (k journalKeeper) resetMissed(j *Journal) error {
	if j == nil || j.Missed == 0 {
		return nil
	}
	j.Missed = 0
	return records.Save(k.records, journalName, j)
}

// recordReason leaves the reason of a bad verdict for the system to which the
// machine falls back.
func (k journalKeeper) recordReason(v View) error {
	j := v.Journal
	if j == nil || j.Target != k.boot.Running || v.Verdict.Word != Bad || j.Reason != "" {
		return nil
	}
	j.Reason = v.Verdict.Reason
	return records.Save(k.records, journalName, j)
}

// cancel records that an operator does not want the upgrade any more, and
// returns its system.
func (k journalKeeper) cancel() (System, error) {
	j, err := ReadJournal(k.records)
	switch {
	case err != nil:
		return System{}, err
	case j != nil && j.Drill != nil:
		return System{}, refuse(fault.UpgradeUnderWay, "it ends by itself, see `loam status`",
			"a drill is under way, not an upgrade")
	case j != nil && j.Target == k.boot.Running:
		return System{}, onTrialAlready(j.Target)
	case j == nil || j.From != k.boot.Running:
		return System{}, refuse(fault.NothingToCancel, "`loam status` shows what the node runs",
			"no upgrade is under way")
	}

	// An upgrade that was canceled does not delay the next one.
	j.Canceled = true
	if err := k.records.Remove(lastName); err != nil {
		return System{}, err
	}
	return j.Target, records.Save(k.records, journalName, j)
}

// remove removes what was recorded during the upgrade. The journal goes last:
// while it is there, the upgrade is finished once more.
func (k journalKeeper) remove() error {
	for _, name := range []string{scratchName, indexName, journalName} {
		if err := k.records.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
