package plan

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unitfile"
)

// unitDir is the directory in which systemd finds the files of a generation's
// units.
const unitDir = "/etc/systemd/system"

// changes are the paths that differ between two generations.
type changes struct {
	list   []File
	byPath map[string]Change
	// before and after are all entries of the two generations.
	before, after             map[string]generation.Entry
	startsBefore, startsAfter map[string]starts
}

func diffEntries(have, want []generation.Entry) changes {
	before := entriesByPath(have)
	after := entriesByPath(want)
	c := changes{
		byPath:       map[string]Change{},
		before:       before,
		after:        after,
		startsBefore: startsOf(before),
		startsAfter:  startsOf(after),
	}

	for name, entry := range after {
		old, ok := before[name]
		switch {
		case !ok:
			c.byPath[name] = Added
		case old == entry:
		case onlyMode(old, entry):
			c.byPath[name] = ModeOnly
		default:
			c.byPath[name] = Changed
		}
	}

	for name := range before {
		if _, ok := after[name]; !ok {
			c.byPath[name] = Removed
		}
	}

	for name, change := range c.byPath {
		c.list = append(c.list, File{Path: name, Change: change})
	}

	slices.SortFunc(c.list, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return c
}

func onlyMode(a, b generation.Entry) bool {
	b.Mode = a.Mode
	return a == b
}

// concernUnits reports whether systemd must be reloaded.
func (c changes) concernUnits() bool {
	return slices.ContainsFunc(c.list, func(f File) bool {
		return strings.HasPrefix(f.Path, unitDir+"/")
	})
}

// unitFiles returns the changes, as reasons, of the text and the drop-ins that
// systemd reads for a unit: also those of its template and of prefixes of its
// name.
func (c changes) unitFiles(name string) []string {
	var why []string
	for _, of := range []string{name, unitfile.TemplateOf(name)} {
		if change, ok := c.byPath[path.Join(unitDir, of)]; ok && change != ModeOnly {
			why = append(why, "unit file "+of+" "+string(change))
		}
	}

	names := unitfile.DropInNames(name)
	for i, of := range names {
		for _, f := range c.list {
			if path.Dir(f.Path) == path.Join(unitDir, of+".d") && f.Change != ModeOnly &&
				!c.hidden(names[:i], f.Path) {
				why = append(why, "drop-in "+path.Base(f.Path)+" "+string(f.Change))
			}
		}
	}

	return why
}

// hidden reports whether one of the nearer names has, before and after, a
// drop-in that systemd reads instead.
func (c changes) hidden(nearer []string, dropIn string) bool {
	has := func(entries map[string]generation.Entry) bool {
		return slices.ContainsFunc(nearer, func(name string) bool {
			_, ok := entries[path.Join(unitDir, name+".d", path.Base(dropIn))]
			return ok
		})
	}
	return has(c.before) && has(c.after)
}

// watched returns which of files change, as reasons.
func (c changes) watched(files []string) []string {
	var why []string
	for _, name := range files {
		if change, ok := c.byPath[name]; ok {
			why = append(why, "file "+name+" "+string(change))
		}
	}
	return why
}

// starts are the links that decide whether systemd starts a unit: the ones that
// make it start, and the ones that override the image's own.
type starts struct{ held, masked bool }

// links compares the links that make systemd start the unit: see unitDiff.
func (c changes) links(name string) (held, freed bool) {
	before := c.startsBefore[name]
	return before.held, before.masked && !c.startsAfter[name].masked
}

// startsOf returns the starts of each unit.
func startsOf(entries map[string]generation.Entry) map[string]starts {
	all := map[string]starts{}
	for name, e := range entries {
		if e.Kind != generation.KindLink ||
			!slices.Contains([]string{".wants", ".requires", ".upholds"},
				path.Ext(path.Dir(name))) {
			continue
		}

		unit := path.Base(name)
		of := all[unit]
		of.masked = of.masked || e.Target == os.DevNull
		of.held = of.held || e.Target != os.DevNull
		all[unit] = of
	}

	return all
}

func entriesByPath(entries []generation.Entry) map[string]generation.Entry {
	byPath := make(map[string]generation.Entry, len(entries))
	for _, e := range entries {
		byPath[e.Path] = e
	}
	return byPath
}
