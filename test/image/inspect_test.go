package image

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loam-os/loam/image/floor"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/test/judge"
)

func inspected(t *testing.T, file string) inspect.Image {
	t.Helper()
	im, err := inspect.Open(t.Context(), file, meter.None)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// TestInspectSaysWhatTheManifestSays: from the bytes of the image alone.
func TestInspectSaysWhatTheManifestSays(t *testing.T) {
	b := underTest(t)
	raw := inspected(t, b.dir)
	m := b.manifest
	if len(raw.UKIs) != 1 {
		t.Fatalf("%d entries", len(raw.UKIs))
	}

	u := raw.UKIs[0]
	want := inspect.UKI{
		Path:     m.UKI,
		ImageID:  m.ImageID,
		Version:  m.Version,
		Kernel:   m.Kernel,
		Cmdline:  m.Cmdline,
		RootHash: m.RootHash,
	}

	others := cmpopts.IgnoreFields(inspect.UKI{}, "Size", "Sections", "Signers", "Packages")
	if diff := cmp.Diff(want, u, others); diff != "" {
		t.Errorf("the UKI (-manifest +inspect):\n%s", diff)
	}

	var debs, modules []manifest.Package
	for _, p := range u.Packages {
		if p.Arch == "" {
			modules = append(modules, p)
		} else {
			debs = append(debs, p)
		}
	}

	if diff := cmp.Diff(m.Packages, debs); diff != "" {
		t.Errorf("packages (-manifest +inspect):\n%s", diff)
	}

	for _, name := range []string{"stdlib", "github.com/spf13/cobra", "k8s.io/client-go"} {
		if !slices.ContainsFunc(modules, func(p manifest.Package) bool {
			return p.Name == name && p.Version != ""
		}) {
			t.Errorf("no %s among %d modules", name, len(modules))
		}
	}

	// The image has the packages that start the kernel, and not those whose
	// files were removed.
	for name, want := range map[string]bool{
		"systemd": true, "systemd-boot-efi": true,
		"debconf": false, "perl-base": false, "python3": false, "linux-image-cloud-amd64": false,
	} {
		if got := slices.ContainsFunc(debs, func(p manifest.Package) bool {
			return p.Name == name
		}); got != want {
			t.Errorf("package %s: in the image %v, want %v", name, got, want)
		}
	}

	if err := floor.Check(modules); err != nil {
		t.Error(err)
	}

	for i, p := range m.Partitions {
		have := raw.Disk.Partitions[i]
		if (manifest.Partition{
			Index: have.Index,
			Label: have.Label,
			Type:  p.Type,
			UUID:  have.UUID,
			Start: have.Start,
			Size:  have.Size,
		}) != p || have.Role == "" {
			t.Errorf("partition %+v, manifest: %+v", have, p)
		}
	}

	if raw.Disk.GUID != m.DiskGUID || raw.Disk.SectorSize != m.SectorSize ||
		raw.Disk.Loader == "" || raw.Disk.Damage != "" {
		t.Errorf("disk %+v", raw.Disk)
	}

	for name, want := range judge.Inspect(t, b.file(t, ".efi")) {
		section := inspect.Section{Name: name, Size: want.Size, SHA256: want.SHA256}
		if !slices.Contains(u.Sections, section) {
			t.Errorf("section %s, as ukify has it: %+v; all: %+v", name, want, u.Sections)
		}
	}

	for _, suffix := range []string{".qcow2", ".raw.zst"} {
		diff := cmp.Diff(raw, inspected(t, b.file(t, suffix)),
			cmpopts.IgnoreFields(inspect.Image{}, "File", "Format"))
		if diff != "" {
			t.Errorf("raw and %s:\n%s", suffix, diff)
		}
	}

	c, err := inspect.Compare(raw, inspected(t, b.file(t, ".efi")))
	if err != nil || c.Restart || len(c.System)+len(c.Packages)+len(c.Layout) > 0 {
		t.Errorf("the UKI and the disk that it is on: %+v, %v", c, err)
	}
}

func TestPackedIsTheDisk(t *testing.T) { underTest(t).packedIsTheDisk(t) }

// packedIsTheDisk unpacks the packed disk and compares, without the holes.
func (b build) packedIsTheDisk(t *testing.T) {
	t.Helper()
	unpacked := t.TempDir() + "/raw"
	judge.Run(t, "zstd", "-d", "--sparse", b.file(t, ".raw.zst"), "-o", unpacked)
	judge.Run(t, "qemu-img", "compare", "-f", "raw", "-F", "raw", unpacked, b.file(t, ".raw"))
}
