package osc

import (
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// osID is the ID in the image's os-release, for which %o stands.
const osID = "loam"

// checkOwnUnits refuses what a unit would do to Loam's own. An alias is a link
// that systemd would follow instead of the image's unit, a unit that stops the
// node agent stops what would revert it, and a unit that the agent needs or waits for
// may keep it from starting. names are the names of the units that read the text.
func checkOwnUnits(report *document.Report, at, text string, names []string) {
	for line := range unitfile.Lines(text) {
		key, value, _ := line.Assignment()
		for _, name := range meant(value, names) {
			if !unitfile.IsReserved(name) {
				continue
			}
			switch key {
			case "Alias":
				report.Add(at, "the alias "+document.Quote(name)+" is refused: it belongs to Loam",
					"choose another name")
			case "Conflicts", "PropagatesStopTo":
				report.Add(at, key+"="+document.Quote(name)+" is refused: it stops a unit of Loam",
					"leave it out")
			case "Before":
				report.Add(at, key+"="+document.Quote(name)+" is refused: a unit of Loam would wait for it",
					"leave it out: the unit starts beside those of Loam")
			case "WantedBy", "RequiredBy", "UpheldBy":
				report.Add(at, key+"="+document.Quote(name)+" is refused: it changes a unit of Loam",
					"name another unit, such as multi-user.target")
			}
		}
	}
}

// meant returns the units that a list in the text of such units stands for.
func meant(list string, names []string) []string {
	var all []string
	for _, word := range unitWords(list) {
		for _, name := range names {
			all = append(all, expandName(word, name))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unitWords splits a list of units as systemd does, where a backslash is part of
// a name (config_parse_unit_deps and config_parse_strv). Whether quotes are, too,
// depends on the version and on the section, so the words of both are returned.
func unitWords(list string) []string {
	return append(strings.Fields(list), unitfile.NamesIn(list)...)
}

// expandName replaces the specifiers in the name of a unit that depend on the
// unit that has them, or on the image, alone (unit_name_printf of systemd).
func expandName(text, unit string) string {
	stem, _ := cutSuffix(unit)
	prefix, instance, _ := strings.Cut(stem, "@")
	return strings.NewReplacer(
		"%%", "%",
		"%n", unit,
		"%N", stem,
		"%p", prefix,
		"%i", instance,
		"%j", prefix[strings.LastIndexByte(prefix, '-')+1:],
		"%o", osID,
	).Replace(text)
}

// instances are the instances of each template that a document has, or that one
// of its units names.
type instances map[string][]string

// instancesOf returns the instances in a document.
func instancesOf(files []located[File], units []located[Unit]) instances {
	all := instances{}
	for _, file := range files {
		name, text := file.value.unitFile()
		all.read(name, text)
	}
	for _, unit := range units {
		all.read(unit.value.Name, "")
		if unit.value.Content != nil {
			all.read(unit.value.Name, *unit.value.Content)
		}
		for _, dropIn := range unit.value.DropIns {
			all.read(unit.value.Name, dropIn.Content)
		}
	}
	return all
}

// read adds a unit, and the instances that its text names.
func (i instances) read(unit, text string) {
	i.add(unit)
	for line := range unitfile.Lines(text) {
		key, value, _ := line.Assignment()
		for _, word := range unitWords(value) {
			word = expandName(word, unit)
			if stem, suffix := cutSuffix(unit); key == "DefaultInstance" && unitfile.IsTemplate(unit) {
				word = stem + word + "." + suffix
			}
			i.add(word)
		}
	}
}

// add adds a unit, if it is an instance of a template.
func (i instances) add(unit string) {
	stem, suffix := cutSuffix(unit)
	prefix, instance, _ := strings.Cut(stem, "@")
	if instance == "" {
		return
	}
	template := prefix + "@." + suffix
	if !slices.Contains(i[template], unit) {
		i[template] = append(i[template], unit)
	}
}

// names returns the units that read the file of a unit: itself, and its instances.
func (i instances) names(unit string) []string { return append([]string{unit}, i[unit]...) }
