package generation

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/unitfile"
)

// install is a unit's [Install] section: systemd.unit(5).
type install struct {
	wantedBy, requiredBy, upheldBy, alias, also []string
	defaultInstance                             string
}

// installOf returns the [Install] section of a unit.
func installOf(s unitfile.Settings) install {
	list := func(directive string) []string { return s.Names("Install", directive) }
	return install{
		wantedBy:        list("WantedBy"),
		requiredBy:      list("RequiredBy"),
		upheldBy:        list("UpheldBy"),
		alias:           list("Alias"),
		also:            list("Also"),
		defaultInstance: s.Last("Install", "DefaultInstance"),
	}
}

// isWanted reports whether enabling the unit makes another unit start it.
func (in install) isWanted() bool {
	return len(in.wantedBy)+len(in.requiredBy)+len(in.upheldBy) > 0
}

// unitDir is the directory of the generation's units and links. It precedes the
// image's own directory in systemd's search path.
const unitDir = "/etc/systemd/system"

// links returns the symbolic links that enable unit name, whose text is at
// file, by link path: the same as systemctl(1) "enable" makes.
func (in install) links(name, file string) (map[string]string, error) {
	links := map[string]string{}
	base := name
	if IsTemplate(name) && in.defaultInstance != "" {
		instance, err := expand(in.defaultInstance, name)
		if err != nil {
			return nil, err
		}
		base = instantiate(name, instance)
	}

	if strings.Contains(base, "/") {
		return nil, fmt.Errorf("DefaultInstance=%s: not part of a unit's name", in.defaultInstance)
	}

	for _, alias := range in.alias {
		alias, err := expand(alias, base)
		if err != nil {
			return nil, err
		}

		if IsTemplate(alias) && !IsTemplate(base) {
			alias = instantiate(alias, instanceOf(base))
		}

		if path.Ext(alias) != path.Ext(name) || strings.Contains(alias, "/") {
			return nil, fmt.Errorf("alias %s: not a name of the same type", alias)
		}

		links[path.Join(unitDir, alias)] = file
	}

	for suffix, targets := range map[string][]string{
		"wants":    in.wantedBy,
		"requires": in.requiredBy,
		"upholds":  in.upheldBy,
	} {
		for _, target := range targets {
			target, err := expand(target, base)
			if err != nil {
				return nil, err
			}
			if strings.Contains(target, "/") {
				return nil, fmt.Errorf("[Install] value %q: not the name of a unit", target)
			}

			// A template without an instance can only be wanted by templates.
			if IsTemplate(base) && !IsTemplate(target) {
				continue
			}

			links[path.Join(unitDir, target+"."+suffix, base)] = file
		}
	}

	return links, nil
}

// expand replaces the specifiers of systemd.unit(5) that depend only on the
// unit's name. The others are errors, because a generation must not depend on
// the machine that makes it.
func expand(text, unit string) (string, error) {
	stem := strings.TrimSuffix(unit, path.Ext(unit))
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
		ok := false
		if i < len(text) {
			value, ok = values[text[i]]
		}

		if !ok {
			return "", fmt.Errorf("[Install] value %q: specifier not supported there", text)
		}

		out.WriteString(value)
	}

	return out.String(), nil
}

// IsTemplate reports whether name is like foo@.service.
func IsTemplate(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, path.Ext(name)), "@")
}

// TemplateOf returns foo@.service for foo@bar.service, and "" if name is not an
// instance.
func TemplateOf(name string) string {
	ext := path.Ext(name)
	prefix, instance, ok := strings.Cut(strings.TrimSuffix(name, ext), "@")
	if !ok || instance == "" {
		return ""
	}
	return prefix + "@" + ext
}

func instanceOf(name string) string {
	_, instance, _ := strings.Cut(strings.TrimSuffix(name, path.Ext(name)), "@")
	return instance
}

func instantiate(template, instance string) string {
	prefix, _, _ := strings.Cut(template, "@")
	return prefix + "@" + instance + path.Ext(template)
}

// environmentFiles returns the glob(7) patterns of EnvironmentFile= in the
// settings of unit name, without the "-" that makes a file optional. A pattern
// that depends on the machine is left out.
func environmentFiles(s unitfile.Settings, name string) []string {
	var files []string
	for _, value := range s.Values("Service", "EnvironmentFile") {
		if file, err := expand(strings.TrimPrefix(value, "-"), name); err == nil {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
