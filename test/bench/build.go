package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// out is the build that is measured; it is not the one in use.
const out = dir + "/image"

// measureBuild times the entire command, as a user waits for it.
func measureBuild(ctx context.Context, r *report, cold bool) error {
	if cold {
		took, err := coldBuild(ctx)
		if err != nil {
			return err
		}
		err = r.add(result("image/cold", "s", 360, "download and unpacking of Debian packages",
			conditions("amd64 cloud, no cache of trees, packages or Go builds"), took))
		if err != nil {
			return err
		}
	}

	if _, err := runBuild(ctx, nil); err != nil { // makes every cache warm
		return err
	}

	var took []float64
	for i := range 3 {
		overlay, err := changedSource(i)
		if err != nil {
			return err
		}
		t, err := runBuild(ctx, nil, "--go-flag=-overlay="+overlay)
		if err != nil {
			return err
		}
		took = append(took, t)
	}

	_, err := runBuild(ctx, nil) // the real one again, for what follows
	return errors.Join(err,
		r.add(result("image/rebuild-go", "s", 15, "hashing 3.3 GiB of image twice",
			conditions("amd64 cloud, one line of agent/status changed"), took...)))
}

// coldBuild builds with caches of its own, and removes them.
func coldBuild(ctx context.Context, args ...string) (float64, error) {
	cache, err := filepath.Abs(filepath.Join(dir, "cache"))
	if err != nil {
		return 0, err
	}
	if err := os.RemoveAll(cache); err != nil {
		return 0, err
	}

	took, err := runBuild(ctx,
		[]string{"XDG_CACHE_HOME=" + cache, "GOCACHE=" + filepath.Join(cache, "go-build")}, args...)
	return took, errors.Join(err, os.RemoveAll(cache))
}

func runBuild(ctx context.Context, env []string, args ...string) (seconds float64, err error) {
	cmd := exec.CommandContext(ctx, "build/loamctl",
		append([]string{"build", "--out", out}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	start := time.Now()

	if text, err := cmd.Output(); err != nil {
		return 0, fmt.Errorf("build: %w\n%s", err, text)
	}

	return time.Since(start).Seconds(), nil
}

// changedSource writes a version of one file of the agent that differs in its
// machine code, and the overlay (go help build) that puts it in place.
func changedSource(n int) (overlay string, err error) {
	const file = "agent/status/table.go"
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}

	text = fmt.Appendf(text, "\nfunc init() { println(%s) }\n",
		strconv.Quote(fmt.Sprint(n, time.Now().UnixNano())))
	changed, err := filepath.Abs(filepath.Join(dir, "changed.go"))
	if err != nil {
		return "", err
	}

	original, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}

	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}

	overlay = filepath.Join(filepath.Dir(changed), "overlay.json")
	return overlay, errors.Join(os.WriteFile(changed, text, 0o644),
		os.WriteFile(overlay, list, 0o644))
}
