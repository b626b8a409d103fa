package osc

import (
	"cmp"
	"io/fs"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// defaultMode is the mode of a file without permissions (Gardener API
// reference: 0600).
const defaultMode = 0o600

// Merge returns the desired state of the node: the files for it, the units
// merged by name with Spec before Status, and the configuration of containerd.
// A later command, enable or content replaces an earlier one; drop-ins and file
// paths are added. Merge validates first and returns the errors of Validate
// unless all of them are warnings. env must have all References.
//
// Of several files with one path the last counts, as on a node with
// gardener-node-agent: the later one in a list, Status after Spec, and the text
// of a unit after files. Files of criConfig come after files and after the
// drop-ins of Spec.
func Merge(osc OperatingSystemConfig, env Env) (config.Desired, error) {
	if env.Contents == nil {
		env.Contents = map[Reference]config.Content{}
	}
	_, refusal := document.Lenient(Validate(osc, env))
	if refusal != nil {
		return config.Desired{}, refusal
	}
	return merge(osc, env)
}

// MergeChecked is Merge for a document that [Check] did not refuse. env must be
// the same except for Contents.
func MergeChecked(osc OperatingSystemConfig, env Env) (config.Desired, error) {
	report := document.NewReport(osc.origin)
	checkContents(report, osc.files(), env)
	if err := report.Err(); err != nil {
		return config.Desired{}, err
	}
	return merge(osc, env)
}

func merge(osc OperatingSystemConfig, env Env) (config.Desired, error) {
	var desired config.Desired
	leaveOut(&desired, osc, env)

	units := map[string]*config.Unit{}
	mergeUnits(units, osc.Spec.Units)
	mergeCRIUnit(units, osc.Spec.CRIConfig)
	mergeUnits(units, osc.Status.ExtensionUnits)

	for _, unit := range units {
		if unit.Content != nil && *unit.Content == "" { // It is masked and cannot be started.
			unit.Command = config.CommandStop
		}
		desired.Units = append(desired.Units, *unit)
	}

	if err := mergeFiles(&desired, osc, env); err != nil {
		return config.Desired{}, err
	}
	if err := mergeCRI(&desired, osc.Spec.CRIConfig, env); err != nil {
		return config.Desired{}, err
	}

	desired.Update = osc.Spec.InPlaceUpdates.desired()
	tidy(&desired)
	return desired, nil
}

// mergeFiles adds the files for this node that nothing else provides.
func mergeFiles(desired *config.Desired, osc OperatingSystemConfig, env Env) error {
	byPath := map[string]File{}
	for _, file := range osc.files() {
		if file.value.isWritten(env) {
			byPath[file.value.Path] = file.value
		}
	}

	for name := range osc.Spec.CRIConfig.written() {
		delete(byPath, name)
	}

	for _, unit := range desired.Units {
		if unit.Content != nil {
			delete(byPath, path.Join(unitDir, unit.Name))
		}
		for _, dropIn := range unit.DropIns {
			delete(byPath, path.Join(unitDir, unit.Name+".d", dropIn.Name))
		}
	}

	for _, file := range byPath {
		merged, err := file.desired(env)
		if err != nil {
			return err
		}
		desired.Files = append(desired.Files, merged)
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

// fileMode converts the bits of chmod(2) to those of io/fs.
func fileMode(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		out |= fs.ModeSetuid
	}
	if mode&0o2000 != 0 {
		out |= fs.ModeSetgid
	}
	if mode&0o1000 != 0 {
		out |= fs.ModeSticky
	}
	return out
}

// unitOf returns the unit called name, and adds it to units if it is new.
func unitOf(units map[string]*config.Unit, name string) *config.Unit {
	if units[name] == nil {
		units[name] = &config.Unit{Name: name}
	}
	return units[name]
}

// mergeUnits adds the units of a list except those that are left out.
func mergeUnits(units map[string]*config.Unit, list []Unit) {
	for _, unit := range list {
		if !unit.isLeftOut() {
			mergeUnit(unitOf(units, unit.Name), unit)
		}
	}
}

// mergeUnit adds the fields of from to into.
func mergeUnit(into *config.Unit, from Unit) {
	into.Content = cmp.Or(from.Content, into.Content)
	into.Enable = cmp.Or(from.Enable, into.Enable)

	if from.Command != nil {
		into.Command = from.command()
	}

	for _, dropIn := range from.DropIns {
		same := func(d config.DropIn) bool { return d.Name == dropIn.Name }
		into.DropIns = append(slices.DeleteFunc(into.DropIns, same), config.DropIn(dropIn))
	}

	into.FilePaths = append(into.FilePaths, from.FilePaths...)
}

// command returns what to do with a unit that has a command. An unknown
// command, or starting a template, counts as no command.
func (u Unit) command() config.Command {
	command := config.Command(*u.Command)
	if !slices.Contains(commands, *u.Command) ||
		(unitfile.IsTemplate(u.Name) && command != config.CommandStop) {
		return ""
	}
	return command
}
