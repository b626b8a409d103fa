package systemdmodel_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// scenario is a configuration as the choices that make it up.
type scenario struct {
	dice  dice
	files map[string]config.File
	parts map[string]part
}

// part is one unit. Needs is a dependency such as "Requires=s0.service": it is
// in the unit's text only while the other unit should be up.
type part struct {
	unit  config.Unit
	needs string
}

// dice is a generator of choices; one(n) is true once in n times.
type dice struct{ *rand.Rand }

func (d dice) one(n int) bool             { return d.IntN(n) == 0 }
func (d dice) pick(from ...string) string { return from[d.IntN(len(from))] }

// some returns the elements of from that a coin chooses.
func (d dice) some(from ...string) []string {
	return slices.DeleteFunc(slices.Clone(from), func(string) bool { return !d.one(3) })
}

var worldFiles = []string{
	"/etc/pairs/f0", "/etc/pairs/f1", "/etc/pairs/f2", "/var/lib/pairs/f3",
	"/etc/pairs/env", "/etc/pairs/a.env", "/etc/pairs/b.env",
}

// scenarioUnits says how each unit of a scenario is drawn.
var scenarioUnits = map[string]func(w *scenario, name string) part{
	"s0.service":               (*scenario).service,
	"s1.service":               (*scenario).service,
	"s2.service":               (*scenario).service,
	"s3.service":               (*scenario).service,
	"s0-alias.service":         (*scenario).listed,
	"o0.service":               (*scenario).oneshot,
	"o1.service":               (*scenario).oneshot,
	"t@.service":               (*scenario).template,
	"t@a.service":              (*scenario).listed,
	"t@b.service":              (*scenario).listed,
	"c.timer":                  (*scenario).trigger,
	"k.socket":                 (*scenario).trigger,
	"p.path":                   (*scenario).trigger,
	"c.service":                (*scenario).triggered,
	"k.service":                (*scenario).triggered,
	"p.service":                (*scenario).triggered,
	"g.target":                 (*scenario).target,
	"pairs.slice":              (*scenario).slice,
	"systemd-journald.service": (*scenario).vendor,
	"logrotate.timer":          (*scenario).vendor,
}

func newScenario(seed uint64) *scenario {
	w := &scenario{
		dice{rand.New(rand.NewPCG(seed, 0))},
		map[string]config.File{},
		map[string]part{},
	}
	for range 30 {
		w.change()
	}
	return w
}

// change draws one file or unit again, or takes it away.
func (w *scenario) change() {
	if w.dice.one(4) {
		name := w.dice.pick(worldFiles...)
		delete(w.files, name)
		if !w.dice.one(5) {
			mode := []fs.FileMode{0o644, 0o600}[w.dice.IntN(2)]
			w.files[name] = config.File{
				Path:    name,
				Mode:    mode,
				Content: config.Text(fmt.Sprintf("A=%d\n", w.dice.IntN(2))),
			}
		}
		return
	}

	name := w.dice.pick(slices.Sorted(maps.Keys(scenarioUnits))...)
	delete(w.parts, name)
	if !w.dice.one(4) {
		w.parts[name] = scenarioUnits[name](w, name)
	}
}

// desired returns the configuration without what is impossible: an alias or
// instance of a missing unit, or a dependency on a unit that is down.
func (w *scenario) desired() config.Desired {
	var d config.Desired
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		d.Files = append(d.Files, w.files[name])
	}

	for _, name := range slices.Sorted(maps.Keys(w.parts)) {
		p := w.parts[name]

		of := map[string]string{
			"t@a.service":      "t@.service",
			"t@b.service":      "t@.service",
			"s0-alias.service": "s0.service",
		}[name]
		if of != "" {
			real, ok := w.parts[of]
			if !ok ||
				(strings.HasSuffix(name, "alias.service") &&
					(real.unit.Stopped() || !strings.Contains(*real.unit.Content, "Alias="))) {
				continue
			}
		}
		if stem := strings.TrimSuffix(name, path.Ext(name)); len(stem) == 1 &&
			path.Ext(name) != ".service" {
			if _, ok := w.parts[stem+".service"]; !ok && stem != "g" {
				continue // systemd does not start a trigger of nothing.
			}
		}
		if key, other, ok := strings.Cut(p.needs, "="); ok {
			on, listed := w.parts[other]
			if listed && ((!on.unit.Stopped() && !p.unit.Stopped()) || key == "PartOf") {
				p.unit.Content = text(fmt.Sprintf("[Unit]\n%s\nAfter=%s\n%s",
					p.needs, other, *p.unit.Content))
			}
		}
		if p.unit.Stopped() && p.unit.Content != nil {
			p.unit.Content = text(strings.ReplaceAll(
				*p.unit.Content,
				"RequiredBy=s3.service\n",
				"",
			)) // It would start again with that.
		}
		d.Units = append(d.Units, p.unit)
	}

	return d
}

// listed is a unit that has no text of its own.
func (w *scenario) listed(name string) part {
	u := config.Unit{Name: name, FilePaths: w.dice.some(worldFiles[:4]...)}
	names := []string{"10-a.conf", "20-b.conf"}
	if name == "s0-alias.service" {
		names = []string{"30-c.conf"} // Which of two of the same name counts is systemd's secret.
	}

	for _, in := range w.dice.some(names...) {
		u.DropIns = append(u.DropIns, config.DropIn{
			Name: in,
			Content: fmt.Sprintf("[Service]\nEnvironment=D=%d\n%s",
				w.dice.IntN(2), w.environment()),
		})
	}
	return part{unit: u}
}

// own is a unit with a text, and any state it may be wanted in.
func (w *scenario) own(name, content string) part {
	p := w.listed(name)
	if w.dice.one(2) {
		p.unit.DropIns = nil
	}

	p.unit.Content = text(fmt.Sprintf("# %d\n%s", w.dice.IntN(2), content))
	switch w.dice.IntN(10) {
	case 0:
		no := false
		p.unit.Enable = &no
	case 1:
		p.unit.Command = config.CommandStop
	case 2:
		p.unit.Command = config.CommandRestart
	case 3:
		p.unit.Command = config.CommandStart
	}
	return p
}
