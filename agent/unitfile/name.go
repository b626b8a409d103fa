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
