package upgrade

import "github.com/loam-os/loam/image/bundle"

// contents are the chunks of a slot, as they were when the system in it ran. With
// them, what another system has to write there is known without reading it.
type contents struct {
	RootHash string          `json:"rootHash"`
	Root     []bundle.Digest `json:"root"`
	Verity   []bundle.Digest `json:"verity"`
}

// exchange takes the contents of the slot that a system is to replace, and keeps
// those of the slot that runs, for when that is the one to be replaced. What is taken
// is gone before the slot is written: after a cut, only the slot tells what it has.
func exchange(k Keeper, replaces string, running contents) (contents, error) {
	var had contents
	if err := read(k, contentsName, &had); err != nil {
		return contents{}, err
	}
	if had.RootHash != replaces {
		had = contents{}
	}
	if err := k.Remove(contentsName); err != nil {
		return contents{}, err
	}
	if running.RootHash == "" {
		return had, nil
	}
	return had, write(k, contentsName, running)
}
