package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// unitDiff has everything that concerns one unit. Have or Want is nil if that
// generation does not list it.
type unitDiff struct {
	name       string
	have, want *listed

	// files are the changes of text and drop-ins, watched the changes of
	// filePaths.
	files, watched []string

	// held says that the previous generation had links that start the unit,
	// freed that it overrode the image's own such links and the next does not.
	held, freed bool
	state       unit.State
	observed    bool
}

func diffUnits(have, want generation.Manifest, c changes, observed Observed) []Action {
	a := newAliases(have, want, observed)
	before := a.merge(have.Units)
	after := a.merge(want.Units)
	var actions []Action
	for _, name := range keysOf(before, after) {
		d := newUnitDiff(name, before[name], after[name], c)
		d.state, d.observed = observed[name]
		if d.want != nil && d.want.Own && observed.id(name) != name {
			d.state = unit.State{Active: "inactive"} // An alias of another unit becomes a unit.
		}

		verb, why := d.decide()
		actions = append(actions, Action{
			Unit: name,
			Verb: verb,
			Once: verb == Start && d.idle(),
			Why:  why,
		})
	}

	actions = freeSockets(actions, after, observed)
	actions = follow(actions, bonds{after, observed, c})
	slices.SortStableFunc(actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.Stage(), b.Stage()), strings.Compare(a.Unit, b.Unit))
	})

	return actions
}

// newUnitDiff combines the changes under all names of the unit.
func newUnitDiff(name string, have, want *listed, c changes) unitDiff {
	d := unitDiff{name: name, have: have, want: want}
	for _, of := range eachOf(have, want, func(l *listed) []string { return l.names }) {
		d.files = append(d.files, c.unitFiles(of)...)
		held, freed := c.links(of)
		d.held = d.held || held
		d.freed = d.freed || freed
	}
	d.watched = c.watched(eachOf(have, want, func(l *listed) []string { return l.FilePaths }))
	return d
}

func (d unitDiff) decide() (Verb, []string) {
	switch {
	case d.want == nil && d.have.Own && d.slice():
		return Keep, []string{"no longer in the configuration: " +
			"systemd gives it its defaults as it reloads"}
	case d.want == nil && d.have.Own && d.kubeletMount():
		return Keep, []string{"no longer in the configuration, " +
			"and mounted until the machine restarts"}
	case d.want == nil && d.have.Own:
		return d.stop("no longer in the configuration")
	case d.want == nil:
		return d.leave()
	case d.want.Stopped && d.want.OnDemand && len(d.changes()) == 0 &&
		d.have != nil && d.have.Stopped:
		return Keep, []string{byTrigger}
	case d.want.Stopped && !d.want.Enabled:
		return d.stop("disabled")
	case d.want.Stopped:
		return d.stop("the configuration wants it stopped")
	}

	return d.run()
}

// run decides for a unit that should or may be up.
func (d unitDiff) run() (Verb, []string) {
	why := d.changes()
	if d.have == nil && d.want.Restart {
		why = append(why, "command is restart")
	}

	switch {
	case d.idle():
		return d.once(why)
	case d.down():
		return Start, slices.Concat([]string{d.downBecause()}, why)
	case len(why) == 0:
		return Keep, []string{"nothing of it changes"}
	case d.slice():
		return Keep, append(why, "which systemd takes up as it reloads")
	case d.kubeletMount():
		return Keep, append(why, "which counts when the machine restarts: pods use what is mounted")
	case d.want.Reloads && len(d.files) == 0 && d.up():
		return Reload, why
	}

	return Restart, why
}

// byTrigger is why a unit on demand is left alone.
const byTrigger = "its timer, path or socket unit starts it"

// idle reports whether the unit starts on demand and is down, so that it needs
// no restart and need not come up.
func (d unitDiff) idle() bool {
	return d.want != nil && d.want.OnDemand && (!d.observed || d.state.Stopped())
}

// once decides for an idle unit: it runs when it is new and when it changes, as
// a path unit may never request the first run. A socket does.
func (d unitDiff) once(why []string) (Verb, []string) {
	switch {
	case d.want.BySocket:
		return Keep, []string{byTrigger}
	case d.have == nil || d.have.Stopped:
		return Start, slices.Concat([]string{d.downBecause()}, why)
	case len(why) == 0:
		return Keep, []string{byTrigger}
	}
	return Start, why
}

// changes returns the reasons to restart the unit because of its files.
func (d unitDiff) changes() []string { return slices.Concat(d.files, d.watched) }

// leave decides for a unit of the image that the configuration no longer lists:
// it returns to the image's state.
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

// slice reports whether the unit is a slice: stopping one stops everything in
// it, and its settings apply as soon as systemd has read them.
func (d unitDiff) slice() bool { return strings.HasSuffix(d.name, ".slice") }

// kubeletMount reports whether the unit mounts a directory of the kubelet,
// which cannot be unmounted or mounted again beneath running pods.
func (d unitDiff) kubeletMount() bool { return d.name == "var-lib-kubelet.mount" }

func (d unitDiff) stop(why string) (Verb, []string) {
	if !d.up() {
		return Keep, []string{why + ", and down"}
	}
	return Stop, []string{why}
}

// up reports whether there is anything to stop or restart. Without an
// observation, the previous generation decides.
func (d unitDiff) up() bool {
	if !d.observed {
		return d.have != nil && !d.have.Stopped
	}
	return !d.state.Stopped()
}

// down reports whether a unit that should be up must be started. A unit with a
// job is on its way.
func (d unitDiff) down() bool {
	if !d.observed {
		return d.have == nil || d.have.Stopped
	}
	if (d.have == nil || d.have.Stopped) && !d.state.Running() {
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
