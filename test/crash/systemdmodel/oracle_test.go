package systemdmodel_test

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// view is what one configuration says of a unit under all its names, worked out
// from the documents alone and with nothing of the engine.
type view struct {
	names []string
	unit  config.Unit
	// text is what systemd reads: own or template's text and drop-ins.
	text string
	// own says that the configuration has the text.
	own, wanted bool
	// onDemand says that a timer, path or socket starts it, bySocket that this
	// is a socket and nothing else asks for the unit.
	onDemand, bySocket bool
	watches            []string
	fragment           string
	dropIns            []string
}

// lines are the values of a setting in a text.
func lines(text, key string) []string {
	var values []string
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

// views are the units of d by the name that systemd uses, templates left out.
func views(d config.Desired) map[string]*view {
	byName, ids := map[string]config.Unit{}, map[string]string{}
	for _, u := range d.Units {
		byName[u.Name] = u
		if u.Content != nil {
			for _, alias := range lines(*u.Content, "Alias") {
				ids[alias] = u.Name
			}
		}
	}

	all := map[string]*view{}
	for _, u := range d.Units {
		id := ids[u.Name]
		if id == "" {
			id = u.Name
		}
		if strings.Contains(id, "@.") {
			continue
		}
		if all[id] == nil {
			all[id] = &view{}
		}
		all[id].take(id, u, byName)
	}

	for id, v := range all {
		if v.own && v.fragment == "" {
			v.fragment = "/etc/systemd/system/" + id
		}
		for _, suffix := range []string{".timer", ".socket", ".path"} {
			by, listed := byName[strings.TrimSuffix(id, ".service")+suffix]
			asked := v.unit.Command != "" ||
				len(lines(v.text, "WantedBy"))+len(lines(v.text, "RequiredBy")) > 0
			starts := listed && !by.Stopped()
			v.onDemand = v.onDemand || starts
			v.bySocket = v.bySocket || (starts && suffix == ".socket" && !asked)
		}
		slices.Sort(v.dropIns)
	}

	return all
}

// take adds what the unit listed under one name says.
func (v *view) take(id string, u config.Unit, byName map[string]config.Unit) {
	v.names = append(v.names, u.Name)
	listed := []config.Unit{u}
	stem, rest, instance := strings.Cut(u.Name, "@")
	if instance {
		template := byName[stem+"@.service"]
		v.own, v.fragment = true, "/etc/systemd/system/"+template.Name
		listed = append(listed, template)
	}
	if u.Name == id {
		v.unit, v.wanted = u, !u.Stopped()
	}

	v.watches = append(v.watches, u.FilePaths...)
	for _, l := range listed {
		if l.Content != nil {
			v.own = true
			v.text += l.Name + ":" + *l.Content + "\n"
		}
		for _, in := range l.DropIns {
			sameName := func(own config.DropIn) bool { return own.Name == in.Name }
			if l.Name != u.Name && slices.ContainsFunc(u.DropIns, sameName) {
				continue // The instance's comes instead of its template's.
			}
			name := path.Join("/etc/systemd/system", l.Name+".d", in.Name)
			v.dropIns = append(v.dropIns, name)
			v.text += name + ":\n" + in.Content + "\n"
		}
	}

	for _, name := range lines(v.text, "EnvironmentFile") {
		name = strings.ReplaceAll(
			strings.TrimPrefix(name, "-"),
			"%i",
			strings.TrimSuffix(rest, ".service"),
		)
		v.watches = append(v.watches, name)
	}
}

// contents says what each file is, mode and all.
func contents(d config.Desired) map[string]string {
	all := map[string]string{}
	for _, f := range d.Files {
		all[f.Path] = fmt.Sprint(f.Mode, f.Content.Digest)
	}
	return all
}

// differs reports whether one of the files that a unit watches does.
func differs(a, b *view, have, want config.Desired) bool {
	before, after := contents(have), contents(want)
	return slices.ContainsFunc(
		slices.Concat(a.watches, b.watches),
		func(name string) bool { return before[name] != after[name] },
	)
}

// due is what has to become of each unit on the way from have to want, and no
// more, if systemd is as s says.
func due(have, want config.Desired, s snapshot) outcome {
	before, after := views(have), views(want)
	o := outcome{}
	for id, v := range before {
		if after[id] == nil {
			o.set(id, gone(v, s.units[id].up()))
		}
	}

	for id, v := range after {
		o.set(id, stays(id, before[id], v, s.units[id], have, want))
	}

	for _, name := range []string{"c.service", "k.service", "p.service"} {
		socket := strings.TrimSuffix(name, ".service") + ".socket"
		if v := after[name]; o[socket] == "new" && s.units[name].up() && o[name] != "stopped" {
			o.set(name, "stopped")
			if v != nil && v.wanted && !v.bySocket {
				o.set(name, "new")
			}
		}
	}

	for o.spread(after, s) {
	}

	return o
}

func (o outcome) set(id, what string) {
	delete(o, id)
	if what != "" {
		o[id] = what
	}
}

// gone is for a unit that the configuration no longer lists.
func gone(v *view, up bool) string {
	vendor := !v.own
	switch {
	case !up || strings.HasSuffix(v.names[0], ".slice"):
	case !vendor || (v.names[0] == "logrotate.timer" && v.wanted):
		return "stopped"
	case len(v.dropIns) > 0:
		return "new"
	}
	return ""
}

// stays is for a unit that the configuration lists. old is nil if it did not
// before.
func stays(id string, old, v *view, s seen, have, want config.Desired) string {
	first := old == nil
	if first {
		old = &view{}
	}

	changed := old.text != v.text
	same := !first && !changed && !differs(old, v, have, want)
	switch {
	case !v.wanted && v.onDemand && !old.wanted && same:
		return "" // Its trigger may have started it.
	case !v.wanted && s.up():
		return "stopped"
	case !v.wanted || (v.bySocket && !s.up()):
		return ""
	case v.onDemand && !s.up() && same && old.wanted:
		return ""
	case v.onDemand && !s.up():
		return "new"
	case (first && !s.up()) || (!first && !old.wanted && !s.up()):
		return "new"
	case !s.up() && !strings.Contains(v.text, "Type=oneshot"):
		return "new"
	case strings.HasSuffix(id, ".slice"):
		return ""
	case changed || (first && v.unit.Command == config.CommandRestart):
		return "new"
	case differs(old, v, have, want) && strings.Contains(v.text, "X-ReloadIfChanged=true") &&
		s.up():
		return "reloaded"
	case differs(old, v, have, want):
		return "new"
	}

	return ""
}

// spread takes a restart or stop on to the units that are up and bound to the
// unit, and reports whether that was anything new.
func (o outcome) spread(after map[string]*view, s snapshot) bool {
	bound := map[string][]string{}
	for id, v := range after {
		for _, key := range []string{"Requires", "Requisite", "BindsTo", "PartOf"} {
			for _, on := range lines(v.text, key) {
				bound[on] = append(bound[on], id)
			}
		}
		for _, by := range lines(v.text, "RequiredBy") {
			if v.unit.Enabled() {
				bound[id] = append(bound[id], by)
			}
		}
	}

	for on, all := range bound {
		if !s.units[on].up() || (o[on] != "new" && o[on] != "stopped") {
			continue
		}
		for _, id := range all {
			v := after[id]
			what := o[on]
			if v != nil && v.wanted && !v.bySocket {
				what = "new"
			}
			if s.units[id].up() && (o[id] == "" || o[id] == "reloaded") {
				o[id] = what
				return true
			}
		}
	}

	return false
}
