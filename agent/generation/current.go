package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Activate makes name, a generation that Write has finished, the current one of
// osVersion. It is one rename.
func (s *Store) Activate(osVersion, name string) error {
	if _, err := s.Load(name); err != nil {
		return fmt.Errorf("activate: %w", err)
	}
	dir := path.Join("os", osVersion)
	if _, err := s.dir.MkdirAll(dir); err != nil {
		return fmt.Errorf("activate %s: %w", name, err)
	}
	if _, err := s.dir.Symlink(path.Join("../..", generationsDir, name), path.Join(dir, "current")); err != nil {
		return fmt.Errorf("activate %s: %w", name, err)
	}
	return nil
}

// Deactivate leaves osVersion without a current generation.
func (s *Store) Deactivate(osVersion string) error {
	return s.dir.Remove(path.Join("os", osVersion, "current"))
}

// Current is the manifest of the current generation of osVersion; false if it
// has none yet. An error that is ErrTorn says that there is one, damaged.
func (s *Store) Current(osVersion string) (Manifest, bool, error) {
	target, err := s.dir.Root().Readlink(path.Join("os", osVersion, "current"))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, false, nil
	}
	if err != nil {
		return Manifest{}, false, fmt.Errorf("read the current generation of %s: %w", osVersion, err)
	}
	m, err := s.Load(path.Base(target))
	return m, err == nil, err
}

// Load reads the manifest of the generation called name.
func (s *Store) Load(name string) (Manifest, error) {
	if !nameForm.MatchString(name) {
		return Manifest{}, fmt.Errorf("generation %q: %w: not a name of one", name, ErrTorn)
	}
	text, err := s.dir.Root().ReadFile(path.Join(generationsDir, name, manifestName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Manifest{}, fmt.Errorf("generation %s: %w", name, ErrTorn)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("read generation %s: %w", name, err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("generation %s: %w: %w", name, ErrTorn, err)
	}
	if m.Name() != name {
		return Manifest{}, fmt.Errorf("generation %s: %w: manifest is of %s", name, ErrTorn, m.Name())
	}
	root := path.Join(generationsDir, name, rootName)
	if info, err := s.dir.Root().Lstat(root); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return Manifest{}, fmt.Errorf("generation %s: %w: no directory %s", name, ErrTorn, rootName)
	} else if err != nil {
		return Manifest{}, fmt.Errorf("read generation %s: %w", name, err)
	}
	return m, nil
}

// List names the complete generations, oldest first. One whose manifest is
// torn is left out.
func (s *Store) List() ([]string, error) {
	children, err := fs.ReadDir(s.dir.Root().FS(), generationsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list generations: %w", err)
	}
	var names []string
	for _, child := range children {
		if _, err := s.Load(child.Name()); err == nil {
			names = append(names, child.Name())
		}
	}
	slices.SortFunc(names, byNumber)
	return names, nil
}

// byNumber orders names by number, which may have more than six digits.
func byNumber(a, b string) int {
	numberA, _, _ := strings.Cut(a, "-")
	numberB, _, _ := strings.Cut(b, "-")
	if len(numberA) != len(numberB) {
		return len(numberA) - len(numberB)
	}
	return strings.Compare(a, b)
}
