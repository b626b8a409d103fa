package firmware

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/loam-os/loam/firmware/bootentry"
)

// ErrNoEntry is a machine that does not come up: the loader has nothing to
// start.
var ErrNoEntry = errors.New("no boot entry")

// Entries returns the UKIs in \EFI\Linux, first the one that the loader
// chooses. The loader sorts by the metadata in a UKI, this emulation by its
// name. A file with another name than ours comes first, as the worst case.
func (l Loader) Entries() ([]Entry, error) {
	d, err := l.bootDir()
	return d.shown(), err
}

// shown sorts what the loader shows.
func (d directory) shown() []Entry {
	type known struct {
		Entry
		name bootentry.Name
		err  error
	}

	var all []known
	for _, e := range d.entries {
		lower := strings.ToLower(e.Name)
		if e.Size > 0 && e.short().raw[11]&attrDirectory == 0 && strings.HasSuffix(lower, ".efi") &&
			!strings.HasPrefix(lower, "auto-") {
			name, err := nameOf(e.Name)
			all = append(all, known{e, name, err})
		}
	}

	slices.SortStableFunc(all, func(a, b known) int {
		if (a.err == nil) != (b.err == nil) {
			return map[bool]int{true: 1, false: -1}[a.err == nil]
		}
		return compare(a.name, b.name)
	})

	var entries []Entry
	for _, k := range all {
		entries = append(entries, k.Entry)
	}

	return entries
}

// compare is the loader's order: two names that differ only in that one of them
// has tries stay in the order of the directory.
func compare(a, b bootentry.Name) int {
	if a.Counted != b.Counted && !a.Bad() && !b.Bad() {
		a.TriesLeft = 0
		a.TriesDone = 0
		a.Counted = false
		b.TriesLeft = 0
		b.TriesDone = 0
		b.Counted = false
	}
	return bootentry.Compare(a, b)
}

var triesPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*)\+([0-9]+)(?:-([0-9]+))?\.efi$`)
})

// tries takes the name of an entry apart: what comes before "+LEFT-DONE.efi".
func tries(file string) (before string, left, done int, counted bool) {
	m := triesPattern().FindStringSubmatch(file)
	if m == nil {
		return file, 0, 0, false
	}

	left, errLeft := strconv.Atoi(m[2])
	done, errDone := strconv.Atoi("0" + m[3])
	return m[1], left, done, errLeft == nil && errDone == nil
}

// nameOf is bootentry.Parse, but for tries of any length.
func nameOf(file string) (bootentry.Name, error) {
	before, left, done, counted := tries(file)
	if !counted {
		return bootentry.Parse(file)
	}

	n, err := bootentry.Parse(before + ".efi")
	n.TriesLeft = left
	n.TriesDone = done
	n.Counted = true

	return n, err
}

// Start is a start of the machine whose ESP begins at a byte of the disk: what
// Boot chooses, and its UKI.
func Start(disk Disk, esp int64) (e Entry, content []byte, err error) {
	l, err := Open(disk, esp)
	if err != nil {
		return e, nil, err
	}

	e, err = l.Boot()
	if err != nil {
		return e, nil, err
	}

	content, err = l.Read(e)
	return e, content, err
}

// Boot is a start of the machine: the entry that the loader starts, as it was
// named before a try of it was counted on the disk. What it writes is in one
// flush.
func (l Loader) Boot() (Entry, error) {
	d, err := l.bootDir()
	if err != nil {
		return Entry{}, err
	}

	shown := d.shown()
	if len(shown) == 0 {
		return Entry{}, ErrNoEntry
	}
	if err := l.count(d, shown[0]); err != nil {
		return Entry{}, fmt.Errorf("count a try of %s: %w", shown[0].Name, err)
	}

	return shown[0], nil
}

// count renames the entry, if its name has tries, even if none is left. If the
// rename is impossible the entry is booted all the same: the name is taken, the
// file is read-only, or its date is invalid.
func (l Loader) count(d directory, e Entry) error {
	before, left, done, counted := tries(e.Name)
	to := fmt.Sprintf("%s+%d-%d.efi", before, max(0, left-1), done+1)
	taken := slices.ContainsFunc(d.entries, func(e Entry) bool {
		return strings.EqualFold(e.Name, to)
	})

	raw := e.short().raw
	if !counted || taken || raw[11]&attrReadOnly != 0 || !isDate(raw[16:]) || !isDate(raw[24:]) {
		return nil
	}

	return l.rename(d, e, to)
}
