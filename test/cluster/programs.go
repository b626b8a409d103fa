package cluster

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
)

// Build builds the programs that are not in the cache, with a line on out for
// each, and returns the path of each program.
func Build(ctx context.Context, out io.Writer) (map[string]string, error) {
	paths := map[string]string{}
	for _, m := range modules {
		built, err := m.Ensure(ctx, out)
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, built)
	}
	return paths, nil
}

// locate returns where each program is, or would be.
func locate(ctx context.Context) (map[string]string, error) {
	paths := map[string]string{}
	for _, m := range modules {
		found, err := m.Locate(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, found)
	}
	return paths, nil
}

// KubernetesVersion returns the version of Kubernetes that Build builds, such as
// 1.36.3.
func KubernetesVersion(ctx context.Context) (string, error) {
	for _, m := range modules {
		if m.Release != "" {
			version, err := m.Version(ctx)
			return strings.TrimPrefix(version, "v"), err
		}
	}
	return "", errors.New("no module of Kubernetes")
}
