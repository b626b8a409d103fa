package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/kernel"
	"github.com/loam-os/loam/hint"
)

// openKernel opens what machine.yaml opens of the kernel to all processes, and
// closes what an earlier one has opened since the machine started.
// release is the release of the kernel (uname(2)).
func openKernel(root *os.Root, release string, open kernel.Opening) error {
	tables, err := kernelTables(root, release)
	if err != nil {
		return fmt.Errorf("open what machine.yaml says of the kernel: %w", err)
	}

	rules := open.Rules(tables)
	dir := durable.New(root, nil)
	err = errors.Join(
		put(dir, kernel.ModulesFile, rules.Modules),
		put(dir, kernel.SettingsFile, rules.Settings),
	)
	for _, name := range slices.Sorted(maps.Keys(rules.Values)) {
		err = errors.Join(err, root.WriteFile(name, []byte(rules.Values[name]), 0o644))
	}
	if len(rules.Unknown) > 0 {
		err = errors.Join(err, hint.With(
			fmt.Errorf("no process has the kernel load the module %s",
				strings.Join(rules.Unknown, ", ")),
			"`grep -E ' (net-pf|fs)-' /usr/lib/modules/*/modules.alias` lists those of this profile",
		))
	}
	if err != nil {
		return fmt.Errorf("open what machine.yaml says of the kernel: %w", err)
	}
	return nil
}

func kernelTables(root *os.Root, release string) (kernel.Tables, error) {
	var t kernel.Tables
	for name, text := range map[string]*[]byte{
		path.Join("usr/lib/modules", release, "modules.alias"): &t.Aliases,
		kernel.ClosedFile:   &t.Closed,
		kernel.SettingsFile: &t.Before,
	} {
		var err error
		*text, err = root.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return kernel.Tables{}, err
		}
	}
	return t, nil
}

// put writes a file, or removes it if it would be empty.
func put(dir *durable.Dir, name, text string) error {
	if text == "" {
		return dir.Remove(name)
	}
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := dir.WriteFile(name, []byte(text), 0o644)
	return err
}
