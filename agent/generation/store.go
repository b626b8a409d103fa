package generation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
)

// Store is the tree of generations. It has one writer.
type Store struct {
	Reader
	dir *durable.Dir
	// links has a symbolic link to each directory, by the directory's digest.
	links map[string]string
}

// Open returns the store of dir, the root of /var/lib/loam. It reads and writes
// nothing yet.
func Open(dir *durable.Dir) *Store {
	return &Store{Reader: Read(dir.Root().FS()), dir: dir, links: map[string]string{}}
}

// Write stores the generation that m describes, with the content of its files
// by digest. It does not make it the current one. Content and directories that
// the store already has are not written again. The manifest comes last: a
// directory without one is not a generation.
func (s *Store) Write(m Manifest, content map[string]config.Content) error {
	if !nameForm.MatchString(m.Name()) || !versionForm.MatchString(m.OSVersion) {
		return fmt.Errorf("write generation %q for OS version %q: invalid name",
			m.Name(), m.OSVersion)
	}

	digests, err := s.writeObjects(m.Entries, content)
	if s.inventory.swept && errors.Is(err, fs.ErrNotExist) {
		digests, err = s.rewriteObjects(m.Entries, content)
	}

	if err == nil {
		err = s.writeManifest(m, digests)
	}

	if err != nil {
		s.inventory.swept = false
		return errors.Join(fmt.Errorf("write generation %s: %w", m.Name(), err), s.Sweep())
	}

	return nil
}

// rewriteObjects is writeObjects without the cache, for a store in which
// something else has deleted objects. It syncs everything, since the earlier
// attempt may have written objects that are in no batch now.
func (s *Store) rewriteObjects(
	entries []Entry, content map[string]config.Content,
) ([]string, error) {
	s.inventory.swept = false
	digests, err := s.writeObjects(entries, content)
	if err != nil {
		return nil, err
	}
	return digests, s.dir.SyncAll()
}

// writeObjects writes the missing objects of entries and returns the digests of
// their directories, the root last.
func (s *Store) writeObjects(
	entries []Entry, content map[string]config.Content,
) (digests []string, err error) {
	for _, dir := range []string{contentDir, treeDir, generationsDir} {
		if err := s.dir.MkdirAll(dir); err != nil {
			return nil, err
		}
	}

	b := s.dir.Batch()
	defer b.Close()

	added := map[string]bool{}
	for _, e := range entries {
		if e.Kind != KindFile || added[contentName(e)] {
			continue
		}
		added[contentName(e)] = true
		if err := s.addContent(b, e, content); err != nil {
			return nil, err
		}
	}

	for _, t := range trees(entries) {
		if err := s.addTree(b, t); err != nil {
			return nil, err
		}
		digests = append(digests, t.digest)
	}

	return digests, b.Sync()
}

func (s *Store) addContent(b *durable.Batch, e Entry, content map[string]config.Content) error {
	name := contentName(e)
	if s.inventory.swept {
		if s.inventory.objects[name] {
			return nil
		}
		err := s.copyContent(b, e, content) // It is missing.
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}

	_, err := fs.Lstat(s.fsys, name)
	switch {
	case err == nil && isContent(s.fsys, name, e.Mode, e.Digest, e.Size):
		return nil
	case err == nil:
		if err := s.dir.Remove(name); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}

	return s.copyContent(b, e, content)
}

// copyContent writes the content of e, which must be absent.
func (s *Store) copyContent(b *durable.Batch, e Entry, content map[string]config.Content) error {
	c, ok := content[e.Digest]
	if !ok {
		return fmt.Errorf("content of %s: %w", e.Path, fs.ErrNotExist)
	}

	from, err := openChecked(c)
	if err != nil {
		return fmt.Errorf("content of %s: %w", e.Path, err)
	}
	defer from.Close()

	if err := b.File(contentName(e), from, e.Mode); err != nil {
		return fmt.Errorf("store %s: %w", e.Path, err)
	}

	return nil
}

// addTree makes a directory of links: to content, and to the symbolic links to
// its subdirectories.
func (s *Store) addTree(b *durable.Batch, t tree) error {
	dir := path.Join(treeDir, t.digest)
	if s.inventory.swept && s.inventory.objects[dir] {
		return nil
	}

	if _, err := fs.Lstat(s.fsys, dir); err == nil {
		if hasTree(s.fsys, t) {
			return nil
		}
		if err := s.dir.RemoveAll(dir); err != nil {
			return err
		}
	}

	if err := b.Mkdir(dir); err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		if err := b.Link(contentName(t.files[name]), path.Join(dir, name)); err != nil {
			return err
		}
	}

	for _, name := range slices.Sorted(maps.Keys(t.dirs)) {
		if err := s.addLink(b, t.dirs[name], path.Join(dir, name)); err != nil {
			return err
		}
	}

	return nil
}

// addLink makes name a symbolic link to the directory of that digest, as a hard
// link to an existing one if possible, as it then needs no inode: an ext4
// without a journal takes ten times as long to find one while it keeps recently
// deleted ones (find_inode_bit in fs/ext4/ialloc.c).
func (s *Store) addLink(b *durable.Batch, digest, name string) error {
	target := "../" + digest
	if have := s.links[digest]; have != "" {
		if s.inventory.swept {
			return b.Link(have, name)
		}
		if to, err := fs.ReadLink(s.fsys, have); err == nil && to == target {
			return b.Link(have, name)
		}
	}
	s.links[digest] = name
	return b.Symlink(target, name)
}

// rootLink returns the target of the link from a generation's directory to its
// root directory, the last of digests.
func rootLink(digests []string) string {
	return "../../" + path.Join(treeDir, digests[len(digests)-1])
}

// writeManifest makes the generation's directory. It first removes an
// incomplete one that an earlier attempt left under that name.
func (s *Store) writeManifest(m Manifest, digests []string) error {
	base := path.Join(generationsDir, m.Name())
	if _, err := fs.Lstat(s.fsys, base); err == nil {
		if err := s.dir.RemoveAll(base); err != nil {
			return err
		}
	}

	text, err := json.Marshal(m)
	if err != nil {
		return err
	}

	b := s.dir.Batch()
	defer b.Close()
	if err := b.Mkdir(base); err != nil {
		return err
	}
	if err := b.Symlink(rootLink(digests), path.Join(base, rootName)); err != nil {
		return err
	}

	err = b.File(path.Join(base, manifestName), bytes.NewReader(append(text, '\n')), 0o600)
	if err != nil {
		return err
	}

	if err := b.Sync(); err != nil {
		return err
	}
	if err := s.cacheManifest(m, digests); err != nil {
		return err
	}

	if s.inventory.swept {
		s.inventory.count(m, s.treesOf(m))
		s.inventory.names = append(slices.Clone(s.inventory.names), m.Name())
		slices.SortFunc(s.inventory.names, byNumber)
	}

	return nil
}

// Activate makes name, a generation that Write has finished, the current one of
// osVersion. It is one rename.
func (s *Store) Activate(osVersion, name string) error {
	if _, err := s.Load(name); err != nil {
		return fmt.Errorf("activate: %w", err)
	}

	dir := path.Join("os", osVersion)
	if err := s.dir.MkdirAll(dir); err != nil {
		return fmt.Errorf("activate %s: %w", name, err)
	}

	link := path.Join(dir, "current")
	if info, err := fs.Lstat(s.fsys, link); err == nil && info.IsDir() { // no rename replaces that
		if err := s.dir.RemoveAll(link); err != nil {
			return fmt.Errorf("activate %s: %w", name, err)
		}
	}

	if _, err := s.dir.Symlink(path.Join("../..", generationsDir, name), link); err != nil {
		return fmt.Errorf("activate %s: %w", name, err)
	}

	return nil
}

// Deactivate leaves osVersion without a current generation.
func (s *Store) Deactivate(osVersion string) error {
	return s.dir.Remove(path.Join("os", osVersion, "current"))
}

// Repair writes the content of damaged files again, and every directory of
// links that has them. The generations stay the same.
func (s *Store) Repair(m Manifest, content map[string]config.Content) error {
	s.inventory.swept = false
	digests, err := s.writeObjects(m.Entries, content)
	if err != nil {
		return fmt.Errorf("repair generation %s: %w", m.Name(), err)
	}
	_, err = s.dir.Symlink(rootLink(digests), path.Join(generationsDir, m.Name(), rootName))
	return err
}
