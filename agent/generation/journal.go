package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Journal says which change is under way. It is written before the flip and
// goes when the new generation has proven itself, or when the node is back at
// the one before.
type Journal struct {
	// From and To name generations; From is "" for the first.
	From string `json:"from"`
	To   string `json:"to"`

	// Good is the generation to go back to: the last that has proven itself.
	Good string `json:"good,omitempty"`

	// Well are the units that were as wanted before the change, Broken those
	// that were certainly not. One that was new, or on its way, is in neither.
	Well   []string `json:"well,omitempty"`
	Broken []string `json:"broken,omitempty"`

	// Try is set for a change that goes back by itself unless it is confirmed.
	Try *Try `json:"try,omitempty"`

	// Back says why this change goes back to an earlier generation.
	Back string `json:"back,omitempty"`

	// Operator says that a person wanted that, and nothing is wrong with From.
	Operator bool `json:"operator,omitempty"`

	// Began is the wall clock at the start.
	Began time.Time `json:"began"`

	// BootID is the boot in which the change began, Boots how many boots have
	// found it under way since.
	BootID string `json:"bootID"`
	Boots  int    `json:"boots,omitempty"`
}

// Try is how long a change stays without being confirmed.
type Try struct {
	// Until is the end by the wall clock, for people.
	Until time.Time `json:"until"`
	// Deadline is the end as time since the start of boot Journal.BootID. In
	// any other boot, the try is over.
	Deadline time.Duration `json:"deadline"`
}

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

// maxBoots is how many boots a change may be under way in, besides the one it
// began in, before it counts as what brings the node down: the first may be a
// power cut like any other.
const maxBoots = 1

// AtBoot decides, in a boot with the id bootID, before any unit has started,
// what becomes of the change to the generation that is current: whether the
// node goes back to j.Good, and the journal to keep, which is then one of going
// back.
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
		BootID: j.BootID,
		Boots:  j.Boots,
	}, true
}

const journalName = "journal.json"

// Journal reads the journal; false if there is none. One that cannot be decoded
// is the zero Journal: what it says can be seen on disk.
func (r Reader) Journal() (Journal, bool, error) {
	text, err := fs.ReadFile(r.fsys, journalName)
	if errors.Is(err, fs.ErrNotExist) {
		return Journal{}, false, nil
	}

	if err != nil {
		return Journal{}, false, fmt.Errorf("read the journal: %w", err)
	}

	var j Journal
	if err := json.Unmarshal(text, &j); err != nil {
		return Journal{}, true, nil
	}

	return j, true, nil
}

// WriteJournal replaces the journal.
func (s *Store) WriteJournal(j Journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if _, err := s.dir.WriteFile(journalName, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// RemoveJournal says that no change is under way.
func (s *Store) RemoveJournal() error { return s.dir.Remove(journalName) }
