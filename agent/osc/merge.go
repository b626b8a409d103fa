package osc

import (
	"cmp"
	"io/fs"

	"github.com/loam-os/loam/agent/config"
)

// defaultMode is the mode of a file that says nothing about it (Gardener API
// reference: 0600).
const defaultMode = 0o600

// Merge is the desired state of the node: the files for it, the units merged by
// name, Spec before Status, and containerd's configuration. A later command,
// enable or content overrides; drop-ins and file paths add up. It validates
// first, with the errors of Validate; env must have all References.
func Merge(osc OperatingSystemConfig, env Env) (config.Desired, error) {
	if env.Contents == nil {
		env.Contents = map[Reference]config.Content{}
	}
	if err := Validate(osc, env); err != nil {
		return config.Desired{}, err
	}
	var desired config.Desired
	if err := mergeFiles(&desired, osc, env); err != nil {
		return config.Desired{}, err
	}
	units := map[string]*config.Unit{}
	for _, unit := range osc.units() {
		if unit.value.provided() {
			desired.Provided = append(desired.Provided, unit.value.Name)
			continue
		}
		mergeUnit(unitOf(units, unit.value.Name), unit.value)
	}
	if err := mergeCRI(&desired, units, osc.Spec.CRIConfig, env); err != nil {
		return config.Desired{}, err
	}
	for _, unit := range units {
		desired.Units = append(desired.Units, *unit)
	}
	desired.Update = osc.Spec.InPlaceUpdates.desired()
	tidy(&desired)
	return desired, nil
}

func mergeFiles(desired *config.Desired, osc OperatingSystemConfig, env Env) error {
	for _, file := range osc.files() {
		switch {
		case file.value.provided():
			desired.Provided = append(desired.Provided, file.value.Path)
		case file.value.isFor(env):
			merged, err := file.value.desired(env)
			if err != nil {
				return err
			}
			desired.Files = append(desired.Files, merged)
		}
	}
	return nil
}

func (f File) desired(env Env) (config.File, error) {
	mode := uint32(defaultMode)
	if f.Permissions != nil {
		mode = *f.Permissions
	}
	file := config.File{Path: f.Path, Mode: fileMode(mode)}
	if reference, ok := f.Content.reference(); ok {
		file.Content = env.Contents[reference]
		return file, nil
	}
	content, err := f.Content.Inline.decode()
	if err != nil {
		return config.File{}, err
	}
	file.Content = config.Inline(content)
	return file, nil
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

// unitOf is the unit of that name, added to units if it is new.
func unitOf(units map[string]*config.Unit, name string) *config.Unit {
	if units[name] == nil {
		units[name] = &config.Unit{Name: name}
	}
	return units[name]
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
