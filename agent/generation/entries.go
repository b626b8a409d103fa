package generation

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/unitfile"
)

// AgentUnit is the agent's own unit. A configuration cannot change it, because
// the agent would stop itself halfway.
const AgentUnit = "loam-agent.service"

// Tree is an expanded configuration: the entries on disk, and their content by
// digest.
type Tree struct {
	Entries []Entry
	Units   []Unit
	// Content is by Entry.Digest.
	Content map[string]config.Content
}

// Expand returns the files and links of a configuration: its files, its units'
// texts and drop-ins, and the links that enable its units. It is pure. An
// *Error names a unit that cannot be enabled.
//
// A disabled unit gets no links. Where the image itself wants it (a link in a
// .wants directory of /usr/lib or of the image's /etc), a link of that name to
// /dev/null overrides the image's, and systemd ignores that one dependency. The
// unit is not masked: it can still be started by hand.
func Expand(d config.Desired, vendor Vendor) (Tree, error) {
	t := Tree{Content: map[string]config.Content{}}
	links := map[string]string{}

	for _, f := range d.Files {
		t.add(f)
	}

	for _, u := range d.Units {
		if u.Name == AgentUnit {
			return Tree{}, &Error{
				Unit:    u.Name,
				Problem: "belongs to the image",
				Hint:    "leave it out",
			}
		}
		t.addUnitFiles(u)
	}

	known := newKnown(d, vendor)
	for _, u := range d.Units {
		made, err := known.enablement(u)
		if err != nil {
			return Tree{}, err
		}
		if err := addTo(links, made, u.Name); err != nil {
			return Tree{}, err
		}
		t.Units = append(t.Units, known.unit(u))
	}

	t.addLinks(links)
	t.bindRequired(links)
	known.markEssential(t.Units, links)
	slices.SortFunc(t.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(t.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })

	return t, nil
}

// addTo adds the links of unit to all. It refuses links over those of another
// unit, links with the names of Loam's own units, which systemd would follow
// instead, and links that change what Loam's own units need.
func addTo(all, links map[string]string, unit string) error {
	for name, target := range links {
		base := path.Base(name)
		if unitfile.IsReserved(base) {
			return &Error{
				Unit:    unit,
				Problem: "[Install] makes it " + base + ", which belongs to Loam",
				Hint:    "choose another name",
			}
		}

		dir := path.Base(path.Dir(name))
		if by := strings.TrimSuffix(dir, path.Ext(dir)); unitfile.IsReserved(by) {
			return &Error{
				Unit:    unit,
				Problem: "[Install] ties it to " + by + ", which belongs to Loam",
				Hint:    "name another unit, such as multi-user.target",
			}
		}

		if other, ok := all[name]; ok && other != target {
			return &Error{
				Unit: unit,
				Problem: "[Install] makes it " + base + ", as does [Install] of " +
					path.Base(other),
				Hint: "give the name to one of them",
			}
		}

		all[name] = target
	}

	return nil
}

func (t *Tree) add(f config.File) {
	t.Content[f.Content.Digest] = f.Content
	t.Entries = append(t.Entries, Entry{
		Path:   f.Path,
		Kind:   KindFile,
		Mode:   f.Mode,
		Digest: f.Content.Digest,
		Size:   f.Content.Size,
	})
}

// unitMode is the mode of unit files and drop-ins, the same as with Gardener's
// node agent: Environment= may be secret, and only systemd has to read them.
const unitMode = 0o600

func (t *Tree) addUnitFiles(u config.Unit) {
	add := func(name, text string) {
		t.add(config.File{
			Path:    path.Join(unitDir, name),
			Mode:    unitMode,
			Content: config.Text(text),
		})
	}

	if u.Content != nil {
		add(u.Name, *u.Content)
	}
	for _, in := range u.DropIns {
		add(path.Join(u.Name+".d", in.Name), in.Content)
	}
}

// addLinks adds links, except where a file of the configuration has the path.
func (t *Tree) addLinks(links map[string]string) {
	taken := map[string]bool{}
	for _, e := range t.Entries {
		taken[e.Path] = true
	}
	for name, target := range links {
		if !taken[name] {
			t.Entries = append(t.Entries, Entry{Path: name, Kind: KindLink, Target: target})
		}
	}
}

// bindRequired binds units to the units that their links require.
func (t *Tree) bindRequired(links map[string]string) {
	for i := range t.Units {
		u := &t.Units[i]
		for name := range links {
			if path.Dir(name) == path.Join(unitDir, u.Name+".requires") &&
				links[name] != os.DevNull {
				u.BoundTo = append(u.BoundTo, path.Base(name))
			}
		}
		slices.Sort(u.BoundTo)
		u.BoundTo = slices.Compact(u.BoundTo)
	}
}

// enablement returns the links for u: the ones that enable it, including the
// units of Also=, or the ones that override the image's own.
func (k unitIndex) enablement(u config.Unit) (map[string]string, error) {
	links := map[string]string{}
	if !u.Enabled() {
		for _, link := range k.vendor.Links {
			if path.Base(link) == u.Name {
				links[path.Join(unitDir, link)] = "/dev/null"
			}
		}
		return links, nil
	}

	seen := map[string]bool{}
	queue := []string{u.Name}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}

		seen[name] = true
		s, file, ok := k.find(name)
		if !ok {
			return nil, &Error{
				Unit:    u.Name,
				Problem: missing(name, u.Name),
				Hint:    "give it a content, or check the name",
			}
		}

		if k.vendor.Masked[name] && k.units[name].Content == nil && !u.Stopped() {
			return nil, &Error{
				Unit:    u.Name,
				Problem: "the image masks " + name + ", so it cannot be started",
				Hint:    "give it a content, or enable: false",
			}
		}

		in := s.Install()
		made, faults := in.Links(name, file)
		if err := refusal(u.Name, faults); err != nil {
			return nil, err
		}

		for link, target := range made {
			links[path.Join(unitDir, link)] = target
		}
		queue = append(queue, k.enabledAlso(in.Also)...)
	}

	return links, nil
}

func missing(name, unit string) string {
	if name == unit {
		return "neither the image nor the configuration has this unit"
	}
	return "[Install] says Also=" + name + ", which neither the image nor the configuration has"
}

// enabledAlso drops the units that the configuration itself disables.
func (k unitIndex) enabledAlso(also []string) []string {
	return slices.DeleteFunc(slices.Clone(also), func(name string) bool {
		u, ok := k.units[name]
		return ok && !u.Enabled()
	})
}
