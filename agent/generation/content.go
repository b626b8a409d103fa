package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

func (s *Store) writeContent(entries []Entry, content map[string][]byte) error {
	if _, err := s.dir.MkdirAll(contentDir); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind != KindFile {
			continue
		}
		if _, err := s.dir.AddFile(contentName(e), content[e.Digest], e.Mode); err != nil {
			return err
		}
	}
	return s.dir.SyncDir(contentDir)
}

// contentName is where the store has a file's content. Mode is part of it, as
// hard links share one mode.
func contentName(e Entry) string {
	return fmt.Sprintf("%s/%s-%04o", contentDir, e.Digest, Octal(e.Mode))
}

// Octal is mode as chmod(1) writes it: permission bits, and setuid, setgid and
// sticky in the digit above them.
func Octal(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// Content opens the root of generation name: the files as they are on a node,
// by path without the leading slash. The caller closes it.
func (s *Store) Content(name string) (*os.Root, error) {
	root, err := s.dir.Root().OpenRoot(path.Join(generationsDir, name, rootName))
	if err != nil {
		return nil, fmt.Errorf("open the content of generation %s: %w", name, err)
	}
	return root, nil
}

// Check reads every file of m and says which content is not what the manifest
// says. Nil means that all of it is.
func (s *Store) Check(m Manifest) error {
	root, err := s.Content(m.Name())
	if err != nil {
		return err
	}
	defer root.Close()
	var bad []error
	for _, e := range m.Entries {
		if e.Kind != KindFile {
			continue
		}
		text, err := root.ReadFile(e.Path[1:])
		if sum := sha256.Sum256(text); err == nil && hex.EncodeToString(sum[:]) != e.Digest {
			err = fmt.Errorf("%s: content is not what the manifest says", e.Path)
		}
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}
