package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/image/cache"
)

// Program returns the path of a program that Build builds: kubelet, which is
// static, for a guest. Where it is not built yet, it does as Start does.
func Program(t testing.TB, name string) string {
	t.Helper()
	return programs(t, name)[name]
}

// programs returns the path of each program. If one of those named is not built
// yet, that is a skip for a person, and in CI a reason to build all.
func programs(t testing.TB, names ...string) map[string]string {
	t.Helper()
	find := locate
	if os.Getenv("CI") != "" {
		find = func(ctx context.Context) (map[string]string, error) { return Build(ctx, t.Output()) }
	}
	paths, err := find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := os.Stat(paths[name]); err != nil {
			t.Skipf("%v: go run ./test/cluster/build builds it, once, in minutes", err)
		}
	}
	return paths
}

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
