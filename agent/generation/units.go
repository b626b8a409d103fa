package generation

import (
	"cmp"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/unitfile"
)

// unitIndex indexes the units of a configuration and its image.
type unitIndex struct {
	vendor Vendor
	units  map[string]config.Unit
	files  map[string]bool
	// aliases are the units whose [Install] gives them that name.
	aliases map[string]string
	// triggers are the timers, paths and sockets that start a unit, by unit.
	triggers map[string][]string
}

func newKnown(d config.Desired, vendor Vendor) unitIndex {
	k := unitIndex{
		vendor:   vendor,
		units:    map[string]config.Unit{},
		files:    map[string]bool{},
		aliases:  map[string]string{},
		triggers: map[string][]string{},
	}

	for _, f := range d.Files {
		k.files[f.Path] = true
	}

	for _, u := range d.Units {
		k.units[u.Name] = u
		if u.Content != nil {
			for _, alias := range unitfile.Parse(*u.Content).Install().Alias {
				k.aliases[alias] = u.Name
			}
		}
	}

	for _, name := range append(slices.Collect(maps.Keys(k.units)),
		slices.Collect(maps.Keys(vendor.Texts))...) {
		if u, listed := k.units[name]; (listed && u.Stopped()) || (!listed && !k.byImage(name)) {
			continue
		}
		if s, _, ok := k.find(name); ok {
			starts := target(name, s)
			starts = cmp.Or(k.aliases[starts], starts)
			k.triggers[starts] = append(k.triggers[starts], name)
		}
	}

	return k
}

// bySocketAlone reports whether only sockets start unit u, whose settings are s:
// neither a document nor its [Install] section nor the image asks for it.
func (k unitIndex) bySocketAlone(u config.Unit, s unitfile.Settings) bool {
	sockets := k.triggers[u.Name]
	for _, name := range sockets {
		if !strings.HasSuffix(name, ".socket") {
			return false
		}
	}

	asked := u.Command != "" || k.byImage(u.Name) || s.Install().IsWanted()
	return len(sockets) > 0 && !asked
}

// find returns the settings of a unit, with those of the configuration's
// drop-ins, and its path on the node. The unit's own text precedes its
// template's, the configuration's the image's. The unit that it is an alias of
// comes last.
func (k unitIndex) find(name string) (s unitfile.Settings, file string, ok bool) {
	parse := func(text string) unitfile.Settings {
		return unitfile.Parse(append([]string{text}, k.dropIns(name)...)...)
	}

	for _, of := range []string{name, unitfile.TemplateOf(name), k.aliases[name]} {
		if u := k.units[of]; u.Content != nil {
			return parse(*u.Content), path.Join(unitDir, of), true
		}
		if text, ok := k.vendor.Texts[of]; ok {
			return parse(text), k.vendor.Paths[of], true
		}
	}
	return nil, "", false
}

// dropIns returns the texts of the drop-ins of the unit, under all of its names,
// in the order in which systemd reads them. Of drop-ins of one name the nearest
// counts.
func (k unitIndex) dropIns(name string) []string {
	others := []string{k.aliases[name]}
	for alias, of := range k.aliases {
		if of == name {
			others = append(others, alias)
		}
	}

	slices.Sort(others)
	names := unitfile.DropInNames(name)
	for _, other := range others {
		names = append(names, unitfile.DropInNames(other)...)
	}

	byName := map[string]string{}
	for _, of := range slices.Backward(names) {
		for _, in := range k.units[of].DropIns {
			byName[in.Name] = in.Content
		}
	}

	var texts []string
	for _, in := range slices.Sorted(maps.Keys(byName)) {
		texts = append(texts, byName[in])
	}

	return texts
}

// byImage reports whether the image enables the unit.
func (k unitIndex) byImage(name string) bool {
	return slices.ContainsFunc(k.vendor.Links, func(link string) bool {
		return path.Base(link) == name
	})
}

// unit returns the desired state of u.
func (k unitIndex) unit(u config.Unit) Unit {
	s, _, _ := k.find(u.Name)
	watched := slices.Clone(u.FilePaths)
	for _, pattern := range environmentFiles(s, u.Name) {
		for file := range k.files {
			if ok, err := path.Match(pattern, file); ok && err == nil {
				watched = append(watched, file)
			}
		}
	}

	slices.Sort(watched)
	triggers := ""
	if strings.HasSuffix(u.Name, ".socket") {
		triggers = target(u.Name, s)
	}

	return Unit{
		Name:         u.Name,
		Triggers:     triggers,
		Own:          u.Content != nil || k.units[unitfile.TemplateOf(u.Name)].Content != nil,
		Enabled:      u.Enabled(),
		Stopped:      u.Stopped(),
		Restart:      u.Command == config.CommandRestart,
		ImageEnabled: k.byImage(u.Name),
		OnDemand:     len(k.triggers[u.Name]) > 0,
		BySocket:     k.bySocketAlone(u, s),
		Reloads:      unitfile.IsTrue(s.Last("Unit", "X-ReloadIfChanged")),
		BoundTo:      boundTo(u.Name, s),
		FilePaths:    slices.Compact(watched),
	}
}

// runtime are the units without which a node runs no pods.
var runtime = []string{"containerd.service", "kubelet.service"}

// markEssential marks the units of the runtime among units and the ones that
// they require (Requires=, Requisite=, BindsTo=, another's RequiredBy=),
// directly or through others.
func (k unitIndex) markEssential(units []Unit, links map[string]string) {
	essential := map[string]bool{}
	for queue := slices.Clone(runtime); len(queue) > 0; queue = queue[1:] {
		name := cmp.Or(k.aliases[queue[0]], queue[0])
		if essential[name] {
			continue
		}

		essential[name] = true

		if s, _, ok := k.find(name); ok {
			queue = append(queue, unitsIn(name, s, "Requires", "Requisite", "BindsTo")...)
		}

		for link, target := range links {
			if path.Dir(link) == path.Join(unitDir, name+".requires") && target != os.DevNull {
				queue = append(queue, path.Base(link))
			}
		}
	}

	for i := range units {
		units[i].Essential = essential[units[i].Name]
	}
}

// boundTo returns the units with which systemd stops or restarts unit name:
// systemd.unit(5), Requires=, Requisite=, BindsTo= and PartOf=.
func boundTo(name string, s unitfile.Settings) []string {
	units := unitsIn(name, s, "Requires", "Requisite", "BindsTo", "PartOf")
	slices.Sort(units)
	return slices.Compact(units)
}

// unitsIn returns the units that directives of [Unit] list in the settings of
// unit name. Values that depend on the machine are left out.
func unitsIn(name string, s unitfile.Settings, directives ...string) []string {
	var units []string
	for _, value := range s.Dependencies(directives...) {
		if unit, ok := unitfile.Expand(value, name); ok {
			units = append(units, unit)
		}
	}
	return units
}

// trigger is a type of units that start another, with the setting that names
// it.
type trigger struct{ suffix, section, key string }

var triggers = [...]trigger{
	{".timer", "Timer", "Unit"}, {".socket", "Socket", "Service"}, {".path", "Path", "Unit"},
}

// target returns the unit that the trigger called name starts, "" if it is not
// a trigger.
func target(name string, s unitfile.Settings) string {
	for _, kind := range triggers {
		stem, ok := strings.CutSuffix(name, kind.suffix)
		if !ok {
			continue
		}
		value := s.Last(kind.section, kind.key)
		if unit, ok := unitfile.Expand(value, name); ok && unit != "" {
			return unit
		}
		return stem + ".service"
	}
	return ""
}
