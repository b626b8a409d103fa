package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"

	"github.com/loam-os/loam/agent/durable"
)

// Store is the tree of generations. It has one writer.
type Store struct {
	dir *durable.Dir
}

// Open makes the store of dir, the root of /var/lib/loam. It reads and writes
// nothing yet.
func Open(dir *durable.Dir) *Store { return &Store{dir: dir} }

const (
	contentDir     = "store/sha256"
	generationsDir = "generations"
	manifestName   = "manifest.json"
	rootName       = "root"
)

// ErrTorn says that a generation cannot be used: its manifest or its files are
// missing, its manifest does not fit its name, or its name is none.
var ErrTorn = errors.New("generation is incomplete")

var (
	nameForm    = regexp.MustCompile(`^[0-9]{6,}-[0-9a-f]{12}$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~^-]*$`)
)

// Next is the number that the next generation gets: 1 on a new node.
func (s *Store) Next() (int, error) {
	names, err := s.List()
	if err != nil || len(names) == 0 {
		return 1, err
	}
	last, err := s.Load(names[len(names)-1])
	return last.Number + 1, err
}

// Write stores the generation that m describes, with the content of its
// entries by digest. It does not make it the current one. Content the store has
// already is not written again.
func (s *Store) Write(m Manifest, content map[string][]byte) error {
	if !nameForm.MatchString(m.Name()) || !versionForm.MatchString(m.OSVersion) {
		return fmt.Errorf("write generation %q for OS version %q: not a form of name", m.Name(), m.OSVersion)
	}
	if err := s.writeContent(m.Entries, content); err != nil {
		return fmt.Errorf("write generation %s: %w", m.Name(), err)
	}
	if err := s.writeTree(m); err != nil {
		return fmt.Errorf("write generation %s: %w", m.Name(), err)
	}
	return nil
}

// writeTree makes the generation's directory. What an earlier attempt left
// under that name is no generation and goes first.
func (s *Store) writeTree(m Manifest) error {
	base := path.Join(generationsDir, m.Name())
	if _, err := s.dir.Root().Lstat(base); err == nil {
		if err := s.dir.RemoveAll(base); err != nil {
			return err
		}
	}
	root := path.Join(base, rootName)
	if _, err := s.dir.MkdirAll(root); err != nil {
		return err
	}
	if err := s.link(root, m.Entries); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	_, err = s.dir.WriteFile(path.Join(base, manifestName), append(text, '\n'), 0o600)
	return err
}

// link makes root a tree of hard links to the content of entries.
func (s *Store) link(root string, entries []Entry) error {
	touched := map[string]bool{root: true}
	for _, e := range entries {
		if e.Kind != KindFile {
			continue
		}
		name := path.Join(root, e.Path)
		if !touched[path.Dir(name)] {
			if err := s.dir.AddDir(root, path.Dir(name)); err != nil {
				return err
			}
		}
		for dir := path.Dir(name); !touched[dir]; dir = path.Dir(dir) {
			touched[dir] = true
		}
		if err := s.dir.Link(contentName(e), name); err != nil {
			return err
		}
	}
	for dir := range touched {
		if err := s.dir.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
