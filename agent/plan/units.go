package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// unitDiff is all that bears on one unit. Have or Want is nil where that
// generation does not list it.
type unitDiff struct {
	name       string
	have, want *generation.Unit
	// files are the changes of text and drop-ins, watched those of filePaths.
	files, watched []string
	// held says that the generation before had links that start the unit,
	// freed that it took the image's own such links away and the next does not.
	held, freed bool
	state       unit.State
	observed    bool
}

func diffUnits(have, want generation.Manifest, c changes, observed Observed) []Action {
	before, after := unitsByName(have.Units), unitsByName(want.Units)
	var actions []Action
	for _, name := range names(before, after) {
		if generation.IsTemplate(name) {
			continue // Nothing runs under a template's own name.
		}
		d := unitDiff{name: name, have: before[name], want: after[name], files: c.unitFiles(name)}
		d.state, d.observed = observed[name]
		d.watched = c.watched(filePaths(d.have, d.want))
		d.held, d.freed = held(have.Entries, want.Entries, name)
		verb, why := d.decide()
		actions = append(actions, Action{Unit: name, Verb: verb, Why: why})
	}
	actions = oneForAliases(actions, observed)
	actions = freeSockets(actions, after, observed)
	actions = follow(actions, after, observed)
	slices.SortStableFunc(actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.Stage(), b.Stage()), strings.Compare(a.Unit, b.Unit))
	})
	return actions
}

func (d unitDiff) decide() (Verb, []string) {
	switch {
	case d.want == nil && d.have.Own:
		return d.stop("no longer in the configuration")
	case d.want == nil:
		return d.leave()
	case d.want.Stopped && !d.want.Enabled:
		return d.stop("disabled")
	case d.want.Stopped:
		return d.stop("the configuration wants it stopped")
	}
	return d.run()
}

// run decides for a unit that is to be up, or may be.
func (d unitDiff) run() (Verb, []string) {
	why := slices.Concat(d.files, d.watched)
	if d.have == nil && d.want.Restart {
		why = append(why, "command is restart")
	}
	switch {
	case d.want.OnDemand && !(d.observed && d.state.Running()):
		return Keep, []string{"its timer, socket or path unit starts it"}
	case d.down():
		return Start, slices.Concat([]string{d.downBecause()}, why)
	case len(why) == 0:
		return Keep, []string{"nothing of it changes"}
	case strings.HasSuffix(d.name, ".slice"):
		return Keep, append(why, "which systemd takes up as it reloads")
	case d.want.Reloads && len(d.files) == 0 && d.up():
		return Reload, why
	}
	return Restart, why
}

// leave decides for a unit of the image that the configuration no longer
// lists: it becomes what the image makes of it.
func (d unitDiff) leave() (Verb, []string) {
	switch {
	case d.held && !d.have.ImageEnabled:
		return d.stop("no longer enabled")
	case d.freed:
		return Start, []string{"the image enables it"}
	case len(d.files) > 0 && d.up():
		return Restart, d.files
	}
	return Keep, []string{"it is the image's alone again"}
}

func (d unitDiff) stop(why string) (Verb, []string) {
	if !d.up() {
		return Keep, []string{why + ", and down"}
	}
	return Stop, []string{why}
}

// up reports whether there is anything to stop or restart. Without an
// observation, that is what the generation before wanted.
func (d unitDiff) up() bool {
	if !d.observed {
		return d.have != nil && !d.have.Stopped
	}
	return !d.state.Stopped()
}

// down reports whether a unit that is to be up has to be started. A unit with a
// job is on its way.
func (d unitDiff) down() bool {
	if !d.observed {
		return d.have == nil || d.have.Stopped
	}
	if d.have == nil && !d.state.Running() {
		return !d.state.Job
	}
	return d.state.Stopped() && !d.state.Started()
}

func (d unitDiff) downBecause() string {
	switch {
	case d.have == nil:
		return "new in the configuration"
	case d.have.Stopped:
		return "no longer stopped by the configuration"
	}
	return "it is " + d.state.Active
}

// held compares the links that start the unit: see unitDiff.
func held(have, want []generation.Entry, name string) (held, freed bool) {
	masks := func(e generation.Entry) bool { return e.Target == "/dev/null" }
	before, after := wants(have, name), wants(want, name)
	freed = slices.ContainsFunc(before, masks) && !slices.ContainsFunc(after, masks)
	return slices.ContainsFunc(before, func(e generation.Entry) bool { return !masks(e) }), freed
}

func filePaths(units ...*generation.Unit) []string {
	var all []string
	for _, u := range units {
		if u != nil {
			all = append(all, u.FilePaths...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func unitsByName(units []generation.Unit) map[string]*generation.Unit {
	byName := make(map[string]*generation.Unit, len(units))
	for i := range units {
		byName[path.Base(units[i].Name)] = &units[i]
	}
	return byName
}

// names are the keys of both, sorted.
func names(a, b map[string]*generation.Unit) []string {
	var all []string
	for _, m := range []map[string]*generation.Unit{a, b} {
		for name := range m {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Names are all units that either generation bears on: those to observe, with
// those that they turn out to be bound by (unit.State).
func Names(have, want generation.Manifest) []string {
	all := names(unitsByName(have.Units), unitsByName(want.Units))
	for _, u := range want.Units {
		if u.Triggers != "" {
			all = append(all, u.Triggers)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), generation.IsTemplate)
}
