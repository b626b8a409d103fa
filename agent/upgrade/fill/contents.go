package fill

import (
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/image/bundle"
)

// ContentsFile is the record that has the [Contents] of a slot.
const ContentsFile = "upgrade-contents.json"

// Contents are the chunks of a slot, as they were when the system in it ran.
// With them, what another system has to write there is known without reading
// it.
type Contents struct {
	RootHash string          `json:"rootHash"`
	Root     []bundle.Digest `json:"root"`
	Verity   []bundle.Digest `json:"verity"`
}

// Exchange takes the contents of the slot that a system is to replace, and
// keeps the contents of the running slot for when that slot is replaced. What
// is taken is removed before the slot is written: after a cut, only the slot
// tells what it has.
func Exchange(s records.Store, replaces string, running Contents) (Contents, error) {
	var had Contents
	if err := records.Load(s, ContentsFile, &had); err != nil {
		return Contents{}, err
	}

	if had.RootHash != replaces {
		had = Contents{}
	}

	if err := s.Remove(ContentsFile); err != nil {
		return Contents{}, err
	}
	if running.RootHash == "" {
		return had, nil
	}

	return had, records.Save(s, ContentsFile, running)
}
