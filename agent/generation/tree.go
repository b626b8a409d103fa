package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// tree is one directory of a generation's files. Its name in the store is its
// digest, so generations share every directory that is the same in both, and
// the cost of a change depends only on what it changes.
type tree struct {
	digest string

	// files are the entries of the directory, dirs the digests of its
	// subdirectories, both by name.
	files map[string]Entry
	dirs  map[string]string
}

// treeDigits is how many hex digits of a directory's SHA-256 make its name, 160
// bits: a symbolic link to it then fits into the inode (ext4: 59 bytes) and
// needs no block.
const treeDigits = 40

// trees returns the directories of the files among entries, each after its
// subdirectories, the root directory last. It is pure.
func trees(entries []Entry) []tree {
	var all []tree
	grow("", childrenOf(entries), &all)
	return all
}

// children returns the files and directories directly in each directory, by its
// path without a trailing slash.
type children struct {
	files map[string]Entry
	dirs  map[string]bool
}

func childrenOf(entries []Entry) map[string]*children {
	all := map[string]*children{"": newChildren()}
	for _, e := range entries {
		if e.Kind != KindFile {
			continue
		}
		dir, base := path.Split(e.Path)
		dir = strings.TrimSuffix(dir, "/")
		for child := dir; all[child] == nil; child = strings.TrimSuffix(path.Dir(child), "/") {
			all[child] = newChildren()
		}
		all[dir].files[base] = e
	}

	for dir := range all {
		if dir != "" {
			all[strings.TrimSuffix(path.Dir(dir), "/")].dirs[path.Base(dir)] = true
		}
	}

	return all
}

func newChildren() *children { return &children{map[string]Entry{}, map[string]bool{}} }

// grow appends the trees beneath dir and then the tree of dir, whose digest it
// returns.
func grow(dir string, all map[string]*children, to *[]tree) string {
	t := tree{files: all[dir].files, dirs: map[string]string{}}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(all[dir].dirs)) {
		t.dirs[name] = grow(dir+"/"+name, all, to)
		text = strconv.AppendQuote(append(text, "dir "...), name)
		text = append(append(append(text, ' '), t.dirs[name]...), '\n')
	}

	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		e := t.files[name]
		text = strconv.AppendQuote(append(text, "file "...), name)
		text = append(append(text, ' '), octal(e.Mode)...)
		text = append(append(append(text, ' '), e.Digest...), '\n')
	}

	sum := sha256.Sum256(text)
	t.digest = hex.EncodeToString(sum[:])[:treeDigits]
	*to = append(*to, t)
	return t.digest
}

// rootOf returns the digest of the root directory of entries.
func rootOf(entries []Entry) string {
	all := trees(entries)
	return all[len(all)-1].digest
}

// Paths returns the managed paths of m on the node.
func Paths(m Manifest) []string {
	var paths []string
	for _, e := range m.Entries {
		paths = append(paths, e.Path)
	}
	return paths
}

// Changed returns the managed paths of after that differ on the node from
// before. A link into the current generation stays the same, whatever its
// target has.
func Changed(before, after Manifest) []string {
	had := make(map[string]Placement, len(before.Entries))
	for _, p := range Place(before) {
		had[p.Path] = p.onNode()
	}

	var paths []string
	for _, p := range Place(after) {
		if had[p.Path] != p.onNode() {
			paths = append(paths, p.Path)
		}
	}

	return paths
}

// onNode returns the part of p that is visible at the path itself.
func (p Placement) onNode() Placement {
	if p.Kind == PlaceSymlink {
		return Placement{Kind: p.Kind, Entry: Entry{Path: p.Path, Target: p.Target}}
	}
	return p
}

// Ways returns the names through which the links on the node lead to the files
// of m, the content included: a write through a link changes that.
func Ways(m Manifest) []string {
	ways := []string{
		Link, path.Join(Dir, "os", m.OSVersion, "current"),
		path.Join(Dir, generationsDir, m.Name(), rootName),
	}

	for _, e := range m.Entries {
		if e.Kind == KindFile {
			ways = append(ways, path.Join(Dir, contentName(e)))
		}
	}

	for _, t := range trees(m.Entries) {
		for _, name := range slices.Concat(slices.Collect(maps.Keys(t.files)),
			slices.Collect(maps.Keys(t.dirs))) {
			ways = append(ways, path.Join(Dir, treeDir, t.digest, name))
		}
	}

	return ways
}
