package generation

import (
	"errors"
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/durable"
)

// Journal records the change under way. It is written before the flip and
// removed when the new generation has proved itself or the node has returned to
// the previous one.
type Journal struct {
	// From and To name generations. From is "" for the first.
	From string `json:"from"`
	To   string `json:"to"`

	// Good is the generation to revert to: the last that has proved itself.
	Good string `json:"good,omitempty"`

	// Well are the units that were in the desired state before the change,
	// Broken the units that certainly were not. A new or starting unit is in
	// neither.
	Well   []string `json:"well,omitempty"`
	Broken []string `json:"broken,omitempty"`

	// Answered are the units that were asked before the change, and answered.
	Answered []string `json:"answered,omitempty"`

	// Existed says that the node had To before the change: it stays if the
	// change is abandoned.
	Existed bool `json:"existed,omitempty"`

	// Try is set for a change that is reverted unless it is confirmed.
	Try *Try `json:"try,omitempty"`

	// Back is why this change reverts to an earlier generation.
	Back string `json:"back,omitempty"`

	// Unit is the unit that Back is about, empty if it is about no unit.
	Unit string `json:"unit,omitempty"`

	// Operator says that an operator asked for the revert and that From is not
	// at fault.
	Operator bool `json:"operator,omitempty"`

	// Began is the wall clock at the start, Uptime the time since the start of
	// boot BootID without suspend. An older agent may have included suspend: see
	// OnClockOf.
	Began  time.Time     `json:"began"`
	Uptime time.Duration `json:"uptime,omitempty"`

	// BootID is the boot in which the change began. Boots counts the boots
	// since then that found it under way.
	BootID string `json:"bootID"`
	Boots  int    `json:"boots,omitempty"`
}

// Try is how long a change stays without confirmation.
type Try struct {
	// Until is the end by the wall clock, for display.
	Until time.Time `json:"until"`
	// Deadline is the end as time since the start of boot Journal.BootID. In
	// any other boot, or on another clock, the trial is over.
	Deadline time.Duration `json:"deadline"`
}

// OnClockOf reports whether Uptime and Try.Deadline can be on the clock of
// uptime, which was read later in the same boot. Earlier agents wrote
// CLOCK_BOOTTIME, which runs ahead of CLOCK_MONOTONIC after a suspend.
func (j Journal) OnClockOf(uptime time.Duration) bool { return uptime >= j.Uptime }

// Direction says where a change takes the node.
type Direction string

const (
	// Forward is a change to a new generation.
	Forward Direction = "forward"
	// Revert is a change back to an earlier generation.
	Revert Direction = "revert"
)

// Direction returns where the change takes the node. On disk, only a revert has
// a reason to go back.
func (j Journal) Direction() Direction {
	if j.Back != "" {
		return Revert
	}
	return Forward
}

// maxBoots is how many further boots a change may be under way before it is
// held responsible for the restarts. The first restart may be an ordinary power
// cut.
const maxBoots = 1

// AtBoot decides, in a boot with the ID bootID and before any unit has started,
// what becomes of the change to the current generation. It returns the journal
// to keep and whether the node reverts to j.Good; the journal is then one of a
// revert.
func (j Journal) AtBoot(bootID, current string) (next Journal, back bool) {
	if j.BootID == bootID || j.To != current || j.To == "" || j.Direction() == Revert {
		return j, false
	}

	j.Boots++
	why := ""
	switch {
	case j.Good == "":
	case j.Try != nil:
		why = "the node restarted before it was confirmed"
	case j.Boots > maxBoots:
		why = fmt.Sprintf("the node restarted %d times before it had proven itself", j.Boots)
	}

	if why == "" {
		return j, false
	}

	return Journal{
		From:   j.To,
		To:     j.Good,
		Good:   j.Good,
		Back:   why,
		Began:  j.Began,
		Uptime: j.Uptime,
		BootID: j.BootID,
		Boots:  j.Boots,
	}, true
}

const journalName = "journal.json"

// Journal reads the journal; false if it is absent. An unreadable journal
// counts as the zero Journal, because the disk shows the state of the change.
func (r Reader) Journal() (Journal, bool, error) {
	var j Journal
	found, err := durable.ReadJSON(r.fsys, journalName, &j)
	if errors.Is(err, durable.ErrCorrupt) {
		return Journal{}, true, nil
	}

	if err != nil {
		return Journal{}, false, fmt.Errorf("read the journal: %w", err)
	}
	return j, found, nil
}

// WriteJournal replaces the journal.
func (s *Store) WriteJournal(j Journal) error {
	if err := s.dir.WriteJSON(journalName, j, 0o644); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// RemoveJournal ends the change under way.
func (s *Store) RemoveJournal() error { return s.dir.Remove(journalName) }
