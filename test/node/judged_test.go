package node

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/test/judge"
)

// judged has systemd's own tools read a disk that was upgraded: one of the
// builds runs, the other is the way back.
func judged(t *testing.T, d judge.Disk, u updates, runs, back build) {
	d.Table(t)
	d.FAT(t)

	for _, b := range []build{runs, back} {
		got := d.Dissect(t, b.manifest.RootHash)
		release := strings.Join(got.OSRelease, "\n")
		version := "IMAGE_VERSION=" + b.manifest.Version + "\n"
		if !got.UseBootableUefi || !strings.Contains(release, version) {
			t.Errorf("systemd-dissect: %+v", got)
		}
	}

	var want []judge.Entry
	for _, m := range []manifest.Manifest{runs.manifest, back.manifest} {
		want = append(want, judge.Entry{
			Type:    "type2",
			ID:      filepath.Base(m.UKI),
			Version: m.Version,
			Options: m.Cmdline,
		})
	}

	diff := cmp.Diff(append(slices.Clone(want), judge.Entry{Type: "type1", ID: "recovery.conf"}),
		d.Entries(t))
	if diff != "" {
		t.Error(diff)
	}

	files := d.ESP(t)
	for _, e := range want {
		// The name of a newer system that is the way back says that it has no
		// tries left.
		name := strings.TrimSuffix(e.ID, ".efi") + "*.efi"
		found, err := filepath.Glob(filepath.Join(files, "EFI/Linux", name))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s on the ESP: %v %v", name, found, err)
		}

		got := judge.Inspect(t, found[0])
		if got[".cmdline"].Text != e.Options {
			t.Errorf("ukify inspects %s: %+v", e.ID, got[".cmdline"])
		}
	}

	list := judge.Sysupdate{
		Disk:    d.File,
		ESP:     filepath.Join(files, "EFI/Linux"),
		URL:     u.URL,
		Arch:    bootentry.Arch(runs.manifest.Arch),
		Running: runs.manifest.Version,
	}.Run(t, "list")

	// What is current for it is the newest, whatever runs.
	states := map[string]string{
		runs.manifest.Version: "current",
		back.manifest.Version: "installed",
	}
	if bootentry.CompareVersions(back.manifest.Version, runs.manifest.Version) > 0 {
		states[runs.manifest.Version] = "protected"
		states[back.manifest.Version] = "current"
	}

	for version, state := range states {
		if !regexp.MustCompile(regexp.QuoteMeta(version) + ` .*` + state).MatchString(list) {
			t.Errorf("no %s of %s in\n%s", state, version, list)
		}
	}

	d.Repart(t, "../../partitions")
}
