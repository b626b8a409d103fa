package cluster

import (
	"context"
	"io"
	"maps"
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
