package osc

import (
	"cmp"
	"io/fs"
	"slices"

	"github.com/loam-os/loam/agent/config"
)

// defaultMode is the mode of a file that says nothing about it (Gardener API
// reference: 0600).
const defaultMode = 0o600

// Merge is the desired state of the node: the files for it, and the units merged
// by name, Spec before Status. A later command, enable or content overrides;
// drop-ins and file paths add up. It validates first, with the errors of
// Validate.
func Merge(osc OperatingSystemConfig, env Env) (config.Desired, error) {
	if err := Validate(osc, env); err != nil {
		return config.Desired{}, err
	}
	var desired config.Desired
	for _, file := range osc.files() {
		switch {
		case file.value.provided():
			desired.Provided = append(desired.Provided, file.value.Path)
		case file.value.isFor(env):
			merged, err := file.value.desired()
			if err != nil {
				return config.Desired{}, err
			}
			desired.Files = append(desired.Files, merged)
		}
	}
	units := map[string]*config.Unit{}
	for _, unit := range osc.units() {
		if unit.value.provided() {
			desired.Provided = append(desired.Provided, unit.value.Name)
			continue
		}
		if units[unit.value.Name] == nil {
			units[unit.value.Name] = &config.Unit{Name: unit.value.Name}
		}
		mergeUnit(units[unit.value.Name], unit.value)
	}
	for _, unit := range units {
		desired.Units = append(desired.Units, *unit)
	}
	tidy(&desired)
	return desired, nil
}

func (f File) desired() (config.File, error) {
	content, err := f.Content.Inline.decode()
	if err != nil {
		return config.File{}, err
	}
	mode := uint32(defaultMode)
	if f.Permissions != nil {
		mode = *f.Permissions
	}
	return config.File{Path: f.Path, Mode: fileMode(mode), Content: content}, nil
}

// fileMode turns the bits of chmod(2) into those of io/fs.
func fileMode(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			out |= flag
		}
	}
	return out
}

func mergeUnit(into *config.Unit, from Unit) {
	into.Content = cmp.Or(from.Content, into.Content)
	into.Enable = cmp.Or(from.Enable, into.Enable)
	if from.Command != nil {
		into.Command = config.Command(*from.Command)
	}
	for _, dropIn := range from.DropIns {
		into.DropIns = append(into.DropIns, config.DropIn(dropIn))
	}
	into.FilePaths = append(into.FilePaths, from.FilePaths...)
}

// tidy sorts what has no order of its own, so that equal configurations have
// equal digests, and drops file paths that are not for this node.
func tidy(desired *config.Desired) {
	isFile := map[string]bool{}
	for _, file := range desired.Files {
		isFile[file.Path] = true
	}
	slices.SortFunc(desired.Files, func(a, b config.File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(desired.Units, func(a, b config.Unit) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(desired.Provided)
	desired.Provided = slices.Compact(desired.Provided)
	for i := range desired.Units {
		unit := &desired.Units[i]
		slices.SortFunc(unit.DropIns, func(a, b config.DropIn) int { return cmp.Compare(a.Name, b.Name) })
		slices.Sort(unit.FilePaths)
		unit.FilePaths = slices.DeleteFunc(slices.Compact(unit.FilePaths), func(path string) bool { return !isFile[path] })
	}
}
