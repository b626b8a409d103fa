package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/agent/plan"
)

// journal says what is being applied. It is written before the flip and
// removed when everything is done.
type journal struct {
	From string `json:"from"`
	To   string `json:"to"`
	// BootID is the boot in which the apply began: what Done says of units is
	// true of that boot only.
	BootID string `json:"bootID"`
	// Done lists the unit actions that are finished, as "restart foo.service".
	Done []string `json:"done,omitempty"`
}

const journalName = "journal.json"

func doneName(a plan.Action) string { return string(a.Verb) + " " + a.Unit }

// readJournal returns the journal and whether there is one. One that cannot be
// decoded is told from one that cannot be read: it is as good as none, since
// what it says can be seen on disk.
func (e *Executor) readJournal() (journal, bool, error) {
	text, err := e.State.Root().ReadFile(journalName)
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, false, nil
	}
	if err != nil {
		return journal{}, false, fmt.Errorf("read the journal: %w", err)
	}
	var j journal
	if err := json.Unmarshal(text, &j); err != nil {
		return journal{}, true, nil
	}
	return j, true, nil
}

func (e *Executor) writeJournal(j journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if _, err := e.State.WriteFile(journalName, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (e *Executor) removeJournal() error { return e.State.Remove(journalName) }
