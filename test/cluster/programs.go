package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/image/cache"
)

// Build builds the programs that are not in the cache, with a line on out for
// each, and returns the path of each program.
func Build(ctx context.Context, out io.Writer) (map[string]string, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		entry, err := m.entry(source)
		if err != nil {
			return nil, err
		}
		_, err = cache.Ensure(ctx, dir, entry, func(tmp string) error {
			return m.build(ctx, out, filepath.Join(source, m.name), tmp)
		})
		if err != nil {
			return nil, err
		}
	}
	return locate(ctx)
}

// locate returns where each program is, or would be.
func locate(ctx context.Context) (map[string]string, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, m := range modules {
		entry, err := m.entry(source)
		if err != nil {
			return nil, err
		}
		for _, p := range m.programs {
			paths[p.name] = filepath.Join(dir, entry, p.name)
		}
	}
	return paths, nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w\nhint: set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "loam"), nil
}
