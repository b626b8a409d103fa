package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Reader reads the tree of generations. It cannot change it.
type Reader struct {
	fsys fs.FS

	// loaded caches manifests by name, with the time stamp of their file:
	// generations do not change.
	loaded map[string]loaded

	// inventory is the cache of a Store.
	inventory *inventory
}

// inventory caches the content of the store, which has one writer.
type inventory struct {
	// swept says that the store holds only objects of complete generations, so
	// each of them is complete. The other fields are valid only then.
	swept bool

	// names are the complete generations, oldest first, objects the content and
	// directories that they refer to.
	names   []string
	objects map[string]bool
}

// count adds the objects of m, whose directories have these digests.
func (i *inventory) count(m Manifest, trees []string) {
	for _, e := range m.Entries {
		if e.Kind == KindFile {
			i.objects[contentName(e)] = true
		}
	}
	for _, digest := range trees {
		i.objects[path.Join(treeDir, digest)] = true
	}
}

type loaded struct {
	manifest Manifest
	modTime  time.Time
	size     int64
	// trees are the digests of its directories, nil until they are needed.
	trees []string
}

// Read returns a Reader of /var/lib/loam. It reads nothing yet.
func Read(fsys fs.FS) Reader {
	return Reader{fsys: fsys, loaded: map[string]loaded{}, inventory: &inventory{}}
}

const (
	contentDir     = "store/sha256"
	treeDir        = "store/tree"
	generationsDir = "generations"
	manifestName   = "manifest.json"
	rootName       = "root"
)

// ErrIncomplete is returned for an incomplete generation: its manifest or its
// files are missing, its manifest does not match its name, or its name is
// invalid.
var ErrIncomplete = errors.New("generation is incomplete")

var (
	nameForm    = regexp.MustCompile(`^[0-9]{6,}-[0-9a-f]{12}$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~^-]*$`)
)

// Current returns the manifest of the current generation of osVersion, false if
// it has none yet. ErrIncomplete means that it has an incomplete one.
func (r Reader) Current(osVersion string) (Manifest, bool, error) {
	name, err := r.currentName(osVersion)
	if err != nil || name == "" {
		return Manifest{}, false, err
	}
	m, err := r.Load(name)
	return m, err == nil, err
}

// currentName returns the target of the link of osVersion, "" if it is absent
// or osVersion is invalid.
func (r Reader) currentName(osVersion string) (string, error) {
	if !versionForm.MatchString(osVersion) {
		return "", nil
	}

	target, err := fs.ReadLink(r.fsys, path.Join("os", osVersion, "current"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, syscall.EINVAL):
		return "", fmt.Errorf("current generation of %s: %w: no link", osVersion, ErrIncomplete)
	case err != nil:
		return "", fmt.Errorf("read the current generation of %s: %w", osVersion, err)
	}
	return path.Base(target), nil
}

// Configured reports whether any version of the system has a current generation: a
// version that starts for the first time has none yet.
func (r Reader) Configured() (bool, error) {
	names, err := r.currentNames()
	return len(names) > 0, err
}

// currentNames returns the current generation of each OS version, "" for a
// corrupt one.
func (r Reader) currentNames() ([]string, error) {
	versions, err := fs.ReadDir(r.fsys, "os")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	var names []string
	for _, v := range versions {
		if !v.IsDir() {
			continue
		}
		name, err := r.currentName(v.Name())
		if err != nil && !errors.Is(err, ErrIncomplete) {
			return nil, err
		}
		if name != "" || err != nil {
			names = append(names, name)
		}
	}

	return names, nil
}

// Load reads the manifest of the generation called name.
func (r Reader) Load(name string) (Manifest, error) {
	if !nameForm.MatchString(name) {
		return Manifest{}, fmt.Errorf("generation %q: %w: invalid name", name, ErrIncomplete)
	}

	file := path.Join(generationsDir, name, manifestName)
	info, err := fs.Stat(r.fsys, file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Manifest{}, fmt.Errorf("generation %s: %w", name, ErrIncomplete)
	}

	if err != nil {
		return Manifest{}, fmt.Errorf("read generation %s: %w", name, err)
	}

	known := r.loaded[name]
	if known.size != info.Size() || !known.modTime.Equal(info.ModTime()) {
		known.manifest, err = decode(r.fsys, name, file)
		if err != nil {
			return Manifest{}, err
		}

		known.size = info.Size()
		known.modTime = info.ModTime()
		known.trees = nil
		r.loaded[name] = known
	}

	return known.manifest, checkRoot(r.fsys, name)
}

// manifest returns the manifest of a complete generation, from the cache if
// possible.
func (r Reader) manifest(name string) (Manifest, error) {
	if known, ok := r.loaded[name]; ok {
		return known.manifest, nil
	}
	return r.Load(name)
}

// treesOf returns the digests of the directories of m, which was loaded.
func (r Reader) treesOf(m Manifest) []string {
	known := r.loaded[m.Name()]
	if known.trees == nil {
		for _, t := range trees(m.Entries) {
			known.trees = append(known.trees, t.digest)
		}
		r.loaded[m.Name()] = known
	}
	return known.trees
}

// cacheManifest caches a manifest that was just written, and the digests of its
// directories.
func (r Reader) cacheManifest(m Manifest, digests []string) error {
	info, err := fs.Stat(r.fsys, path.Join(generationsDir, m.Name(), manifestName))
	if err != nil {
		return err
	}
	r.loaded[m.Name()] = loaded{
		manifest: m,
		modTime:  info.ModTime(),
		size:     info.Size(),
		trees:    digests,
	}
	return nil
}

// decode reads the manifest of the generation name.
func decode(fsys fs.FS, name, file string) (Manifest, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return Manifest{}, fmt.Errorf("read generation %s: %w", name, err)
	}

	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("generation %s: %w: %w", name, ErrIncomplete, err)
	}

	if m.Name() != name {
		return Manifest{}, fmt.Errorf("generation %s: %w: manifest is for %s",
			name, ErrIncomplete, m.Name())
	}

	return m, nil
}

// checkRoot makes sure that the files of a generation can be reached.
func checkRoot(fsys fs.FS, name string) error {
	root := path.Join(generationsDir, name, rootName)
	link, err := fs.Lstat(fsys, root)
	if err == nil && link.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("generation %s: %w: %s is not a link", name, ErrIncomplete, rootName)
	}

	info, err := fs.Stat(fsys, root)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !info.IsDir()) {
		return fmt.Errorf("generation %s: %w: no directory %s", name, ErrIncomplete, rootName)
	}

	if err != nil {
		return fmt.Errorf("read generation %s: %w", name, err)
	}

	return nil
}

// List returns the names of the complete generations, oldest first. Generations
// with a corrupt manifest are left out.
func (r Reader) List() ([]string, error) {
	children, err := fs.ReadDir(r.fsys, generationsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list generations: %w", err)
	}

	var names []string
	for _, child := range children {
		if _, err := r.Load(child.Name()); err == nil {
			names = append(names, child.Name())
		}
	}

	slices.SortFunc(names, byNumber)
	return names, nil
}

// names returns the result of List, from the cache if possible.
func (r Reader) names() ([]string, error) {
	if r.inventory.swept {
		return r.inventory.names, nil
	}
	return r.List()
}

// Len returns the number of complete generations.
func (r Reader) Len() (int, error) {
	names, err := r.names()
	return len(names), err
}

// Next returns the number of the next generation: 1 on a new node.
func (r Reader) Next() (int, error) {
	all, err := r.names()
	if err != nil || len(all) == 0 {
		return 1, err
	}
	number, _, _ := strings.Cut(all[len(all)-1], "-")
	last, err := strconv.Atoi(number)
	return last + 1, err
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

// Open opens the content of a file of any generation in the store.
func (r Reader) Open(e Entry) (fs.File, error) {
	f, err := r.fsys.Open(contentName(e))
	if err != nil {
		return nil, fmt.Errorf("open the content of %s: %w", e.Path, err)
	}
	return f, nil
}

// Damaged returns the files of m whose content in the store does not match the
// manifest, or that are missing from the generation's tree. It reads all of
// them.
func (r Reader) Damaged(m Manifest) []Entry { return r.Examine(m, func(int64) {}) }

// Examine is [Reader.Damaged]. It calls read with the size of each file that it is
// done with.
func (r Reader) Examine(m Manifest, read func(bytes int64)) []Entry {
	return r.damaged(m, trees(m.Entries), func(string) bool { return true }, read)
}

// DamagedOf is Damaged for the files that are reached by one of ways. It reads
// only those files and the directories of the generation's tree that have the
// ways.
func (r Reader) DamagedOf(m Manifest, ways []string) []Entry {
	touched := make(map[string]bool, len(ways))
	for _, way := range ways {
		touched[way] = true
	}

	wanted := map[string]bool{}
	var suspect []tree
	for _, t := range trees(m.Entries) {
		dir := path.Join(Dir, treeDir, t.digest)
		has := false
		for name := range t.dirs {
			has = has || touched[path.Join(dir, name)]
		}

		for name, e := range t.files {
			isWay := touched[path.Join(dir, name)]
			has = has || isWay
			if isWay || touched[path.Join(Dir, contentName(e))] {
				wanted[contentName(e)] = true
			}
		}
		if has {
			suspect = append(suspect, t)
		}
	}

	return r.damaged(m, suspect, func(name string) bool { return wanted[name] }, func(int64) {})
}

// damaged checks the directories for which suspect returns true and the content
// for which wanted does. If such a directory is missing, all files of m are
// damaged. It calls read with the size of each file.
func (r Reader) damaged(
	m Manifest, suspect []tree, wanted func(name string) bool, read func(bytes int64),
) []Entry {
	target, err := fs.ReadLink(r.fsys, path.Join(generationsDir, m.Name(), rootName))
	lost := err != nil || path.Base(target) != rootOf(m.Entries)
	for _, t := range suspect {
		lost = lost || !hasTree(r.fsys, t)
	}

	var bad []Entry
	for _, e := range m.Entries {
		if e.Kind != KindFile {
			continue
		}
		name := contentName(e)
		if lost || (wanted(name) && !isContent(r.fsys, name, e.Mode, e.Digest, e.Size)) {
			bad = append(bad, e)
		}
		read(e.Size)
	}

	return bad
}

// hasTree reports whether the store has all of t: the names, and the content
// and directories that they refer to.
func hasTree(fsys fs.FS, t tree) bool {
	dir := path.Join(treeDir, t.digest)
	have, err := fs.ReadDir(fsys, dir)
	if err != nil || len(have) != len(t.files)+len(t.dirs) {
		return false
	}

	for name, e := range t.files {
		link, linkErr := fs.Lstat(fsys, path.Join(dir, name))
		content, err := fs.Lstat(fsys, contentName(e))
		if linkErr != nil || err != nil || !os.SameFile(link, content) {
			return false
		}
	}

	for name, digest := range t.dirs {
		target, err := fs.ReadLink(fsys, path.Join(dir, name))
		if err != nil || target != "../"+digest {
			return false
		}
	}

	return true
}
