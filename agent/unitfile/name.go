package unitfile

import (
	"path"
	"slices"
	"strings"
)

// Types are the types of units, which end their names after a dot.
var Types = []string{
	"service", "socket", "target", "mount", "automount", "swap", "timer", "path", "slice",
	"scope", "device",
}

// maxName is the length of the longest name of a unit.
const maxName = 255

// IsName reports whether name is the name of a unit ("description" in
// systemd.unit(5)). Templates and instances have names, too.
func IsName(name string) bool {
	stem, suffix := cut(name)
	notAllowed := func(r rune) bool { return !InNames(r) }
	return len(name) <= maxName && slices.Contains(Types, suffix) && stem != "" &&
		!strings.HasPrefix(stem, "@") && !strings.ContainsFunc(stem, notAllowed)
}

// InNames reports whether the names of units may have r before their type.
func InNames(r rune) bool {
	letter := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
	return letter || strings.ContainsRune(`:-_.\@`, r)
}

// IsTemplate reports whether name is like foo@.service.
func IsTemplate(name string) bool {
	stem, _ := cut(name)
	return stem != "" && strings.IndexByte(stem, '@') == len(stem)-1
}

// TemplateOf returns foo@.service for foo@bar.service, and "" if name is not an
// instance.
func TemplateOf(name string) string {
	if instanceOf(name) == "" {
		return ""
	}
	return instantiate(name, "")
}

// cut splits "a.b.service" into "a.b" and "service".
func cut(name string) (stem, suffix string) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return name, ""
	}
	return name[:dot], name[dot+1:]
}

func instanceOf(name string) string {
	stem, _ := cut(name)
	_, instance, _ := strings.Cut(stem, "@")
	return instance
}

// instantiate returns a template or an instance with another instance.
func instantiate(name, instance string) string {
	prefix, _, _ := strings.Cut(name, "@")
	return prefix + "@" + instance + path.Ext(name)
}

// Expand replaces the specifiers of systemd.unit(5) that depend only on the
// unit's name. ok is false if text has others: a generation must not depend on
// the machine that makes it.
func Expand(text, unit string) (expanded string, ok bool) {
	stem, _ := cut(unit)
	prefix, instance, _ := strings.Cut(stem, "@")
	parts := strings.Split(prefix, "-")
	values := map[byte]string{
		'n': unit, 'N': stem, 'p': prefix, 'i': instance, 'j': parts[len(parts)-1],
		'u': "root", 'U': "0", 'g': "root", 'G': "0", '%': "%",
	}

	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.WriteByte(text[i])
			continue
		}

		i++
		value := ""
		known := false
		if i < len(text) {
			value, known = values[text[i]]
		}

		if !known {
			return "", false
		}

		out.WriteString(value)
	}

	return out.String(), true
}

// DropInNames returns the names for which systemd reads the drop-ins of a unit
// in the directory NAME.d, the nearest first: a drop-in there replaces those of
// the same name further on. Besides the unit's own name these are its template
// and the prefixes of both that end in a dash (systemd.unit(5), and
// unit_file_find_dirs in systemd's src/shared/dropin.c for the order).
//
// The directories of all units of a type, such as service.d, are left out: no
// configuration has them.
func DropInNames(name string) []string {
	names := []string{name}
	if template := TemplateOf(name); template != "" {
		names = append(names, DropInNames(template)...)
	}
	if prefix := chop(name); prefix != "" {
		names = append(names, DropInNames(prefix)...)
	}

	var unique []string
	for _, of := range names {
		if !slices.Contains(unique, of) {
			unique = append(unique, of)
		}
	}
	return unique
}

// chop returns the name whose prefix ends at the last dash within that of name,
// "" if there is none. It keeps the instance. As in systemd, a template gives
// the name of a plain unit.
func chop(name string) string {
	stem, suffix := cut(name)
	prefix, _, _ := strings.Cut(stem, "@")
	dash := strings.LastIndexByte(strings.TrimSuffix(prefix, "-"), '-')
	if dash <= 0 {
		return ""
	}

	prefix = prefix[:dash+1]
	if instance := instanceOf(name); instance != "" {
		prefix += "@" + instance
	}
	return prefix + "." + suffix
}
