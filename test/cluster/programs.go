package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/loam-os/loam/test/program"
)

// Build builds the modules of the named programs if they are not in the cache, with
// a line on out for each program. It returns the paths of the programs. Without a
// name, it builds all but those that are built by name only.
func Build(ctx context.Context, out io.Writer, names ...string) (map[string]string, error) {
	wanted, err := having(names)
	if err != nil {
		return nil, err
	}

	paths := map[string]string{}
	for _, m := range wanted {
		built, err := m.Ensure(ctx, out)
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, built)
	}
	return paths, nil
}

// having returns the modules that have one of the programs. Without a name, it
// returns all but those that are built by name only.
func having(names []string) ([]program.Module, error) {
	if len(names) == 0 {
		return modules, nil
	}

	all := slices.Concat(modules, byName)
	for _, name := range names {
		isKnown := slices.ContainsFunc(all, func(m program.Module) bool { return has(m, name) })
		if !isKnown {
			return nil, fmt.Errorf("no program %q", name)
		}
	}

	return slices.DeleteFunc(all, func(m program.Module) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return has(m, name) })
	}), nil
}

func has(m program.Module, name string) bool {
	return slices.ContainsFunc(m.Programs, func(p program.Program) bool { return p.Name == name })
}

// locate returns where each program is, or would be.
func locate(ctx context.Context) (map[string]string, error) {
	paths := map[string]string{}
	for _, m := range slices.Concat(modules, byName) {
		found, err := m.Locate(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, found)
	}
	return paths, nil
}

// KubernetesVersion returns the version of Kubernetes that Build builds, such as
// 1.37.2.
func KubernetesVersion(ctx context.Context) (string, error) {
	for _, m := range modules {
		if m.Release != "" {
			version, err := m.Version(ctx)
			return strings.TrimPrefix(version, "v"), err
		}
	}
	return "", errors.New("no module of Kubernetes")
}
