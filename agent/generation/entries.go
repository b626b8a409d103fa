package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// AgentUnit is the agent's own unit. A configuration cannot change it: the
// agent would end itself half way.
const AgentUnit = "loam-agent.service"

// Tree is a configuration worked out: what will be on disk, and the content
// for it by digest and mode.
type Tree struct {
	Entries []Entry
	Units   []Unit
	// Content is by Entry.Digest.
	Content map[string][]byte
}

// Expand works out which files and links a configuration consists of: its
// files, its units' texts and drop-ins, and the links that enable its units. It
// is pure. An *Error says which unit cannot be had.
//
// A unit that is disabled gets no links, and where the image itself wants it
// (a link in a .wants directory of /usr/lib or of the image's /etc), a link of
// that name to /dev/null takes the image's place: systemd then ignores that one
// dependency. The unit is not masked: who starts it on purpose still can.
func Expand(d config.Desired, vendor Vendor) (Tree, error) {
	t := Tree{Content: map[string][]byte{}}
	links := map[string]string{}
	units := map[string]config.Unit{}
	for _, f := range d.Files {
		t.add(f)
	}
	for _, u := range d.Units {
		if u.Name == AgentUnit {
			return Tree{}, &Error{Unit: u.Name, Problem: "belongs to the image", Hint: "leave it out"}
		}
		units[u.Name] = u
		t.addUnitFiles(u)
	}
	for _, u := range d.Units {
		made, err := enablement(u, units, vendor)
		if err != nil {
			return Tree{}, err
		}
		maps.Copy(links, made)
		t.Units = append(t.Units, unitOf(u, units, d, vendor))
	}
	t.addLinks(links)
	slices.SortFunc(t.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(t.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}

func (t *Tree) add(f config.File) {
	sum := sha256.Sum256(f.Content)
	digest := hex.EncodeToString(sum[:])
	t.Content[digest] = f.Content
	t.Entries = append(t.Entries, Entry{Path: f.Path, Kind: KindFile, Mode: f.Mode, Digest: digest, Size: int64(len(f.Content))})
}

func (t *Tree) addUnitFiles(u config.Unit) {
	if u.Content != nil {
		t.add(config.File{Path: path.Join(unitDir, u.Name), Mode: 0o644, Content: []byte(*u.Content)})
	}
	for _, in := range u.DropIns {
		t.add(config.File{Path: path.Join(unitDir, u.Name+".d", in.Name), Mode: 0o644, Content: []byte(in.Content)})
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

// enablement is the links for u: those that enable it, with what Also= names
// besides, or those that take the image's own away.
func enablement(u config.Unit, units map[string]config.Unit, vendor Vendor) (map[string]string, error) {
	links := map[string]string{}
	if !u.Enabled() {
		for _, link := range vendor.Links {
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
		text, file, ok := find(name, units, vendor)
		if !ok {
			return nil, &Error{Unit: u.Name, Problem: missing(name, u.Name), Hint: "give it a content, or check the name"}
		}
		in := parseInstall(text)
		made, err := in.links(name, file)
		if err != nil {
			return nil, &Error{Unit: u.Name, Problem: err.Error()}
		}
		maps.Copy(links, made)
		queue = append(queue, enabledAlso(in.also, units)...)
	}
	return links, nil
}

func missing(name, unit string) string {
	if name == unit {
		return "neither the image nor the configuration has this unit"
	}
	return "[Install] says Also=" + name + ", which neither the image nor the configuration has"
}

// enabledAlso leaves out what the configuration itself says to disable.
func enabledAlso(also []string, units map[string]config.Unit) []string {
	return slices.DeleteFunc(slices.Clone(also), func(name string) bool {
		u, ok := units[name]
		return ok && !u.Enabled()
	})
}

// find is the text of a unit, the configuration's drop-ins appended, and the
// path it has on the node: its own text before its template's, the
// configuration's before the image's.
func find(name string, units map[string]config.Unit, vendor Vendor) (text, file string, ok bool) {
	for _, name := range []string{name, TemplateOf(name)} {
		u := units[name]
		if u.Content != nil {
			return *u.Content + dropInText(u), path.Join(unitDir, name), true
		}
		if text, ok := vendor.Texts[name]; ok {
			return text + dropInText(u), vendor.Paths[name], true
		}
	}
	return "", "", false
}

// dropInText is what u's drop-ins add, in the order systemd reads them.
func dropInText(u config.Unit) string {
	byName := slices.SortedFunc(slices.Values(u.DropIns), func(a, b config.DropIn) int {
		return strings.Compare(a.Name, b.Name)
	})
	var text strings.Builder
	for _, in := range byName {
		text.WriteString("\n" + in.Content)
	}
	return text.String()
}

func unitOf(u config.Unit, units map[string]config.Unit, d config.Desired, vendor Vendor) Unit {
	watched := slices.Clone(u.FilePaths)
	for _, file := range unitEnvironment(u) {
		if slices.ContainsFunc(d.Files, func(f config.File) bool { return f.Path == file }) {
			watched = append(watched, file)
		}
	}
	slices.Sort(watched)
	return Unit{
		Name: u.Name, Own: u.Content != nil || units[TemplateOf(u.Name)].Content != nil, Enabled: u.Enabled(), Stopped: u.Stopped(),
		Restart:      u.Command == config.CommandRestart,
		ImageEnabled: slices.ContainsFunc(vendor.Links, func(link string) bool { return path.Base(link) == u.Name }),
		FilePaths:    slices.Compact(watched),
	}
}

func unitEnvironment(u config.Unit) []string {
	text := dropInText(u)
	if u.Content != nil {
		text = *u.Content + text
	}
	return environmentFiles(text)
}
