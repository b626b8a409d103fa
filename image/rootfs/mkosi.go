package rootfs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/tools"
)

// Mkosi runs mkosi with the configuration in p.Config for p.Arch. It writes
// its results, the names of which begin with output, into dir. It may read and
// write the paths in binds as well; options are further options of mkosi.
func (p Params) Mkosi(
	ctx context.Context, t tools.Tree, dir, output string, binds []string, options ...string,
) error {
	if os.Geteuid() != 0 {
		return tools.ErrNotRoot
	}
	if err := p.prepare(dir, t.Sources); err != nil {
		return fmt.Errorf("mkosi: %w", err)
	}

	args := append([]string{
		"--directory=" + p.Config,
		"--architecture=" + bootentry.Arch(p.Arch),
		"--source-date-epoch=" + fmt.Sprint(p.SourceDateEpoch),
		"--sandbox-tree=" + filepath.Join(dir, "sandbox"),
		"--workspace-directory=" + filepath.Join(dir, "work"),
		"--package-cache-dir=" + p.debs(),
		"--output-directory=" + dir,
		"--output=" + output,
	}, options...)

	cmd := t.Command(ctx, append([]string{p.Config, dir, p.debs()}, binds...), "mkosi",
		append(args, "build")...)
	cmd.Stdout = p.Log
	cmd.Stderr = p.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mkosi: %w", err)
	}

	return removeAll(dir, "sandbox", "work")
}

// prepare makes the directories mkosi wants, the list of sources, and the
// versions of the lock. With a file mkosi.sources there, mkosi adds no archives
// of its own.
func (p Params) prepare(dir string, sources []tools.Source) error {
	list := filepath.Join(dir, "sandbox/etc/apt/sources.list.d/mkosi.sources")
	preferences := filepath.Join(dir, "sandbox/etc/apt/preferences.d/loam")
	for _, d := range []string{
		filepath.Dir(list), filepath.Dir(preferences), filepath.Join(dir, "work"), p.debs(),
	} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}

	var text bytes.Buffer
	for _, s := range sources {
		text.WriteString(s.Deb822(p.components()...))
	}

	if len(p.Lock) > 0 {
		err := os.WriteFile(preferences, []byte(p.Lock.Preferences()), 0o644)
		if err != nil {
			return err
		}
	}

	return os.WriteFile(list, text.Bytes(), 0o644)
}

// components of the archives that the packages are in.
func (p Params) components() []string {
	if len(p.Firmware.Entries) == 0 {
		return []string{"main"}
	}
	return []string{"main", "non-free-firmware"}
}

// debs is where downloaded packages are kept, so that each is fetched once.
func (p Params) debs() string { return filepath.Join(p.Cache, "debs-"+p.Arch) }

func removeAll(dir string, names ...string) error {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
