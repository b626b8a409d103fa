package unitfile

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Install is a unit's [Install] section: systemd.unit(5).
type Install struct {
	WantedBy, RequiredBy, UpheldBy, Alias, Also []string
	DefaultInstance                             string
}

// Install returns the [Install] section.
func (s Settings) Install() Install {
	list := func(directive string) []string { return s.Names("Install", directive) }
	return Install{
		WantedBy:        list("WantedBy"),
		RequiredBy:      list("RequiredBy"),
		UpheldBy:        list("UpheldBy"),
		Alias:           list("Alias"),
		Also:            list("Also"),
		DefaultInstance: s.Last("Install", "DefaultInstance"),
	}
}

// IsWanted reports whether enabling the unit makes another unit start it.
func (in Install) IsWanted() bool {
	return len(in.WantedBy)+len(in.RequiredBy)+len(in.UpheldBy) > 0
}

// Fault is a word of [Install] that enables nothing.
type Fault struct {
	Directive, Word string
	// Problem is what is wrong with the word, and Hint what to do.
	Problem, Hint string
	// Refused is set if a node refuses the unit because of the word. Any other
	// has no effect, as with systemctl(1).
	Refused bool
}

func (f Fault) String() string { return fmt.Sprintf("%s=%q %s", f.Directive, f.Word, f.Problem) }

// Links returns the symbolic links that enable unit name, whose text is at
// file, by their path in the directory of units: the same as systemctl(1)
// "enable" makes. The faults are the words that make no link.
func (in Install) Links(name, file string) (links map[string]string, faults []Fault) {
	e := enabling{links: map[string]string{}, file: file, base: name}
	e.setInstance(in.DefaultInstance)

	for _, word := range in.Alias {
		e.alias(word)
	}

	for _, by := range []struct {
		directive, suffix string
		words             []string
	}{
		{"WantedBy", ".wants", in.WantedBy},
		{"RequiredBy", ".requires", in.RequiredBy},
		{"UpheldBy", ".upholds", in.UpheldBy},
	} {
		for _, word := range by.words {
			e.by(by.directive, by.suffix, word)
		}
	}

	for _, word := range in.Also {
		if !IsName(word) {
			e.refuse("Also", word, "is not the name of a unit",
				"write the name without specifiers, with its type: example.socket")
		}
	}

	return e.links, e.faults
}

// enabling collects the links and the faults of one unit.
type enabling struct {
	links  map[string]string
	faults []Fault
	file   string
	// base is the name of the unit or, of a template with a default instance,
	// the name of that.
	base string
}

func (e *enabling) refuse(directive, word, problem, hint string) {
	e.faults = append(e.faults, Fault{directive, word, problem, hint, true})
}

func (e *enabling) ignore(directive, word, problem, hint string) {
	e.faults = append(e.faults, Fault{directive, word, problem, hint, false})
}

// setInstance makes the default instance of a template the base.
func (e *enabling) setInstance(value string) {
	const directive = "DefaultInstance"
	instance, ok := Expand(value, e.base)
	notAllowed := func(r rune) bool { return !InNames(r) }
	switch {
	case value == "" || TemplateOf(e.base) != "": // systemd ignores it in instances.
	case !IsTemplate(e.base):
		e.ignore(directive, value, "has an effect in templates only",
			"leave it out, or name the unit example@.service")
	case !ok:
		e.refuse(directive, value, notSupported, supported)
	case strings.Contains(instance, "/"):
		e.refuse(directive, value, "is not a part of a unit's name", "write it without slashes")
	case strings.ContainsFunc(instance, notAllowed):
		e.ignore(directive, value, "is not a part of a unit's name", "use letters, digits and :-_.\\@")
	default:
		e.base = instantiate(e.base, instance)
	}
}

const (
	notSupported = "has a specifier that is not supported there"
	supported    = "use %n, %N, %p, %i or %j, or write the name in full"
)

// aliased are the types whose units have aliases.
var aliased = []string{".service", ".socket", ".target", ".device", ".timer", ".path"}

func (e *enabling) alias(word string) {
	const directive = "Alias"
	alias, ok := Expand(word, e.base)
	if IsTemplate(alias) && !IsTemplate(e.base) {
		alias = instantiate(alias, instanceOf(e.base))
	}

	suffix := path.Ext(e.base)
	switch {
	case !ok:
		e.refuse(directive, word, notSupported, supported)
	case path.Ext(alias) != suffix || strings.Contains(alias, "/"):
		e.refuse(directive, word, "is not the name of a unit of the same type", "end it with "+suffix)
	case !slices.Contains(aliased, suffix):
		e.ignore(directive, word, "has no effect: units of this type have no aliases", "leave it out")
	case e.isOpen(word):
	case !IsName(alias):
		e.ignore(directive, word, "is not the name of a unit",
			`use letters, digits and :-_.\@ before the type`)
	default:
		e.links[alias] = e.file
	}
}

// by adds the link in the directory of the unit that word names.
func (e *enabling) by(directive, suffix, word string) {
	target, ok := Expand(word, e.base)
	switch {
	case !ok:
		e.refuse(directive, word, notSupported, supported)
	case strings.Contains(target, "/"):
		e.refuse(directive, word, "is not the name of a unit",
			"write a name without slashes: systemd-escape(1) converts a path")
	case e.isOpen(word):
	case !IsName(target):
		e.ignore(directive, word, "is not the name of a unit",
			"end it with a type of unit, as in multi-user.target")
	case IsTemplate(e.base) && !IsTemplate(target):
		// A template without an instance can only be wanted by templates.
	default:
		e.links[path.Join(target+suffix, e.base)] = e.file
	}
}

// isOpen reports whether word depends on the instance of a template that has
// none. It makes a link for each instance that is enabled.
func (e *enabling) isOpen(word string) bool {
	if !IsTemplate(e.base) {
		return false
	}
	without, _ := Expand(word, e.base)
	with, _ := Expand(word, instantiate(e.base, "x"))
	return without != with
}
