// Package kmod reads what depmod(8) wrote about a kernel's modules: which file
// holds a module, which hardware it drives, and what must be loaded before it.
// It is pure; loading is the node's part, choosing a subset the builder's.
package kmod

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Files are the texts of modules.dep, modules.alias, modules.softdep and
// modules.builtin of one kernel (modules.dep(5)).
type Files struct{ Dep, Alias, Softdep, Builtin []byte }

// Index answers questions about one kernel's modules. Names are as the kernel
// has them: with "_", never "-".
type Index struct {
	file    map[string]string   // module name -> file, relative to the modules directory
	needs   map[string][]string // file -> files it depends on, all levels
	pre     map[string][]string // module name -> names or aliases a soft dependency puts before it
	builtin map[string]bool
	aliases []alias
}

type alias struct{ pattern, module string }

// Parse builds the index. Lines it does not know are errors: a module missed
// at boot is a machine that does not start.
func Parse(f Files) (*Index, error) {
	x := &Index{
		file:    map[string]string{},
		needs:   map[string][]string{},
		pre:     map[string][]string{},
		builtin: map[string]bool{},
	}

	steps := []struct {
		name string
		text []byte
		line func(string) error
	}{
		{"modules.dep", f.Dep, x.dep},
		{"modules.alias", f.Alias, x.alias},
		{"modules.softdep", f.Softdep, x.softdep},
		{"modules.builtin", f.Builtin, func(l string) error {
			x.builtin[Name(l)] = true
			return nil
		}},
	}

	for _, s := range steps {
		if err := eachLine(s.text, s.line); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}

	return x, nil
}

func eachLine(text []byte, do func(string) error) error {
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := do(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return sc.Err()
}

func (x *Index) dep(line string) error {
	file, deps, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("no colon in %q", line)
	}

	x.file[Name(file)] = file
	x.needs[file] = strings.Fields(deps)
	return nil
}

// alias reads "alias PATTERN MODULE". Some drivers of arm64 sound cards have
// patterns with spaces in them.
func (x *Index) alias(line string) error {
	rest, ok := strings.CutPrefix(line, "alias ")
	end := strings.LastIndexByte(rest, ' ')
	if !ok || end < 1 {
		return fmt.Errorf("not an alias: %q", line)
	}

	x.aliases = append(x.aliases, alias{rest[:end], Name(rest[end+1:])})
	return nil
}

func (x *Index) softdep(line string) error {
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "softdep" {
		return fmt.Errorf("not a soft dependency: %q", line)
	}

	before := false
	for _, word := range f[2:] {
		switch {
		case strings.HasSuffix(word, ":"):
			before = word == "pre:"
		case before:
			x.pre[Name(f[1])] = append(x.pre[Name(f[1])], word)
		}
	}

	return nil
}

// Name is a module's name: the base of its file without .ko and compression,
// "-" as "_".
func Name(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// Match lists the modules that drive the hardware of a modalias, such as
// "pci:v00001AF4d00001042…", or carry the name as an alias ("fs-erofs").
func (x *Index) Match(modalias string) []string {
	bus, _, _ := strings.Cut(modalias, ":")
	var out []string
	for _, a := range x.aliases {
		if !strings.HasPrefix(a.pattern, bus) {
			continue
		}
		ok, err := path.Match(a.pattern, modalias)
		if err == nil && ok && !slices.Contains(out, a.module) {
			out = append(out, a.module)
		}
	}
	return out
}

// Order lists the files to insert so that module name runs, dependencies first.
// It is empty for a module built into the kernel; an unknown name is an error.
func (x *Index) Order(name string) ([]string, error) {
	var out []string
	err := x.order(Name(name), &out, map[string]bool{})
	return out, err
}

func (x *Index) order(name string, out *[]string, seen map[string]bool) error {
	if seen[name] {
		return nil
	}

	seen[name] = true
	file, ok := x.file[name]
	if !ok {
		if x.builtin[name] {
			return nil
		}
		return fmt.Errorf("module %s: not in this kernel", name)
	}

	for _, p := range x.pre[name] {
		for _, soft := range x.soft(p) {
			if err := x.order(soft, out, seen); err != nil {
				return err
			}
		}
	}

	for _, dep := range slices.Backward(x.needs[file]) {
		if err := x.order(Name(dep), out, seen); err != nil {
			return err
		}
	}

	*out = append(*out, file)
	return nil
}

// soft lists the modules that meet a soft dependency on name: all that have it
// as an alias. The list may be empty, because the module can load without it.
func (x *Index) soft(name string) []string {
	if _, ok := x.file[Name(name)]; ok {
		return []string{Name(name)}
	}
	return slices.DeleteFunc(x.Match(name), func(module string) bool {
		return x.file[module] == ""
	})
}

// Subset cuts the index down to the named modules with all they need: the
// files to ship and the depmod texts about just these. Names of modules that
// the kernel has built in are fine, unknown ones are errors.
func (x *Index) Subset(names []string) (files []string, texts Files, err error) {
	keep := map[string]bool{}
	for _, name := range names {
		order, err := x.Order(name)
		if err != nil {
			return nil, Files{}, err
		}
		for _, f := range order {
			keep[f] = true
		}
	}

	var dep, al, soft, builtin bytes.Buffer
	for _, f := range slices.Sorted(maps.Keys(keep)) {
		files = append(files, f)
		fmt.Fprintf(&dep, "%s: %s\n", f, strings.Join(x.needs[f], " "))
		if pre := x.pre[Name(f)]; len(pre) > 0 {
			fmt.Fprintf(&soft, "softdep %s pre: %s\n", Name(f), strings.Join(pre, " "))
		}
	}

	for _, a := range x.aliases {
		if keep[x.file[a.module]] {
			fmt.Fprintf(&al, "alias %s %s\n", a.pattern, a.module)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(x.builtin)) {
		fmt.Fprintf(&builtin, "%s.ko\n", name)
	}

	return files, Files{
		Dep:     dep.Bytes(),
		Alias:   al.Bytes(),
		Softdep: soft.Bytes(),
		Builtin: builtin.Bytes(),
	}, nil
}

// Has reports whether the kernel has the module, built in or as a file.
func (x *Index) Has(name string) bool {
	_, ok := x.file[Name(name)]
	return ok || x.builtin[Name(name)]
}
