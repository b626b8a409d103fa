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

	// loaded are manifests by name, as of the time stamp of their file:
	// generations do not change.
	loaded map[string]loaded

	// inventory is what a Store knows to be there.
	inventory *inventory
}

// inventory is what is in the store, of which there is one writer.
type inventory struct {
	// swept says that the store holds nothing but what complete generations
	// refer to: whatever is there is whole. The rest is valid only then.
	swept bool

	// names are the complete generations, oldest first, objects the content and
	// directories that they refer to.
	names   []string
	objects map[string]bool
}

type loaded struct {
	manifest Manifest
	modTime  time.Time
	size     int64
	// trees are the digests of its directories, once asked for.
	trees []string
}

// Read makes a Reader of /var/lib/loam. It reads nothing yet.
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

// ErrTorn says that a generation cannot be used: its manifest or its files are
// missing, its manifest does not fit its name, or its name is none.
var ErrTorn = errors.New("generation is incomplete")

var (
	nameForm    = regexp.MustCompile(`^[0-9]{6,}-[0-9a-f]{12}$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~^-]*$`)
)

// Current is the manifest of the current generation of osVersion; false if it
// has none yet. An error that is ErrTorn says that there is one, damaged.
func (r Reader) Current(osVersion string) (Manifest, bool, error) {
	name, err := r.currentName(osVersion)
	if err != nil || name == "" {
		return Manifest{}, false, err
	}
	m, err := r.Load(name)
	return m, err == nil, err
}

// currentName is what the link of osVersion says, "" if there is none, and for
// what is no OS version.
func (r Reader) currentName(osVersion string) (string, error) {
	if !versionForm.MatchString(osVersion) {
		return "", nil
	}
	target, err := fs.ReadLink(r.fsys, path.Join("os", osVersion, "current"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, syscall.EINVAL):
		return "", fmt.Errorf("current generation of %s: %w: no link", osVersion, ErrTorn)
	case err != nil:
		return "", fmt.Errorf("read the current generation of %s: %w", osVersion, err)
	}
	return path.Base(target), nil
}

// Load reads the manifest of the generation called name.
func (r Reader) Load(name string) (Manifest, error) {
	if !nameForm.MatchString(name) {
		return Manifest{}, fmt.Errorf("generation %q: %w: not a name of one", name, ErrTorn)
	}

	file := path.Join(generationsDir, name, manifestName)
	info, err := fs.Stat(r.fsys, file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Manifest{}, fmt.Errorf("generation %s: %w", name, ErrTorn)
	}

	if err != nil {
		return Manifest{}, fmt.Errorf("read generation %s: %w", name, err)
	}

	known := r.loaded[name]
	if known.size != info.Size() || !known.modTime.Equal(info.ModTime()) {
		known.manifest, err = r.decode(name, file)
		if err != nil {
			return Manifest{}, err
		}

		known.size = info.Size()
		known.modTime = info.ModTime()
		known.trees = nil
		r.loaded[name] = known
	}

	return known.manifest, r.checkRoot(name)
}

// manifest is a generation that is known to be complete: as it was loaded last,
// if it was.
func (r Reader) manifest(name string) (Manifest, error) {
	if known, ok := r.loaded[name]; ok {
		return known.manifest, nil
	}
	return r.Load(name)
}

// treesOf are the digests of the directories of m, which was loaded.
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

// remember keeps a manifest that has just been written, and the digests of its
// directories.
func (r Reader) remember(m Manifest, digests []string) error {
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

func (r Reader) decode(name, file string) (Manifest, error) {
	text, err := fs.ReadFile(r.fsys, file)
	if err != nil {
		return Manifest{}, fmt.Errorf("read generation %s: %w", name, err)
	}

	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("generation %s: %w: %w", name, ErrTorn, err)
	}

	if m.Name() != name {
		return Manifest{}, fmt.Errorf("generation %s: %w: manifest is of %s",
			name, ErrTorn, m.Name())
	}

	return m, nil
}

// checkRoot makes sure that the files of a generation can be reached at all.
func (r Reader) checkRoot(name string) error {
	root := path.Join(generationsDir, name, rootName)
	link, err := fs.Lstat(r.fsys, root)
	if err == nil && link.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("generation %s: %w: %s is no link", name, ErrTorn, rootName)
	}

	info, err := fs.Stat(r.fsys, root)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fmt.Errorf("generation %s: %w: no directory %s", name, ErrTorn, rootName)
	}

	if err != nil {
		return fmt.Errorf("read generation %s: %w", name, err)
	}

	return nil
}

// List names the complete generations, oldest first. One whose manifest is
// torn is left out.
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

// names are those that List gives, without looking again where they are known.
func (r Reader) names() ([]string, error) {
	if r.inventory.swept {
		return r.inventory.names, nil
	}
	return r.List()
}

// Len is the number of complete generations.
func (r Reader) Len() (int, error) {
	names, err := r.names()
	return len(names), err
}

// Next is the number that the next generation gets: 1 on a new node.
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

// Damaged are the files of m whose content in the store is not what the
// manifest says, or that the generation's tree does not have. It reads all of
// them.
func (r Reader) Damaged(m Manifest) []Entry {
	return r.damaged(m, trees(m.Entries), func(string) bool { return true })
}

// DamagedOf is Damaged for files that are reached by one of ways. It reads no
// others, and of the generation's tree only the directories that have the ways.
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

	return r.damaged(m, suspect, func(name string) bool { return wanted[name] })
}

// damaged looks at the directories that are suspect and at the content that is
// wanted. Without one of those directories, all files of m count.
func (r Reader) damaged(m Manifest, suspect []tree, wanted func(name string) bool) []Entry {
	target, err := fs.ReadLink(r.fsys, path.Join(generationsDir, m.Name(), rootName))
	lost := err != nil || path.Base(target) != rootOf(m.Entries)
	for _, t := range suspect {
		lost = lost || !r.wholeTree(t)
	}

	var bad []Entry
	for _, e := range m.Entries {
		name := contentName(e)
		if e.Kind == KindFile &&
			(lost || wanted(name) && !isContent(r.fsys, name, e.Mode, e.Digest, e.Size)) {
			bad = append(bad, e)
		}
	}

	return bad
}

// wholeTree reports whether the store has all of t: the names, and behind them
// the content and directories of the store itself.
func (r Reader) wholeTree(t tree) bool {
	dir := path.Join(treeDir, t.digest)
	have, err := fs.ReadDir(r.fsys, dir)
	if err != nil || len(have) != len(t.files)+len(t.dirs) {
		return false
	}

	for name, e := range t.files {
		link, linkErr := fs.Lstat(r.fsys, path.Join(dir, name))
		content, err := fs.Lstat(r.fsys, contentName(e))
		if linkErr != nil || err != nil || !os.SameFile(link, content) {
			return false
		}
	}

	for name, digest := range t.dirs {
		target, err := fs.ReadLink(r.fsys, path.Join(dir, name))
		if err != nil || target != "../"+digest {
			return false
		}
	}

	return true
}
