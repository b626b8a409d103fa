package image

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/verify"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/test/judge"
)

// TestVerifyFindsEveryChange changes one thing of a build at a time. For what a
// machine boots Verify must say more than that a checksum differs: an attacker
// could have changed the checksums as well.
func TestVerifyFindsEveryChange(t *testing.T) {
	b := underTest(t)
	within := func(role partitions.Role, offset int64) func(*testing.T, string) {
		return flipRaw(b, b.partition(t, role).Start+offset)
	}

	const chunks = "chunks of the update bundle"
	tests := []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"first byte of the root", within(partitions.Root, 0), "slot A: verify: data block 0 "},
		{
			"a byte in the middle of the root",
			within(partitions.Root, 50<<20),
			"slot A: verify: data block 12800 ",
		},
		{
			"salt of the verity tree",
			within(partitions.RootVerity, 88),
			"slot A: verify: hash block 1 ",
		},
		{
			"root of the verity tree",
			within(partitions.RootVerity, 4096),
			"slot A: verify: hash block 1 ",
		},
		{
			"command line on the ESP",
			flipFound(b, "roothash="+b.manifest.RootHash),
			"on the ESP differs",
		},
		{"boot sector of the ESP", within(partitions.ESP, 11), "read ESP"},
		{"header of the partition table", flipRaw(b, 512+16), "partition table: primary header"},
		{"entry of the partition table", flipRaw(b, 2*512+32), "partition table: primary "},
		{"backup of the partition table", flipRaw(b, b.manifest.DiskSize-512+16), "backup header"},
		{"root as a file", flipFile(b, ".root", 4096), ".root: verify: data block 1 "},
		{"UKI as a file", flipFile(b, ".efi", 8<<20), "differs from " + b.name(t, ".efi")},
		{"qcow2", flipFile(b, ".qcow2", 1<<20), b.name(t, ".qcow2") + ": "},
		{chunks, flipFile(b, ".pack", 1<<20), b.name(t, ".pack") + ": "},
		{
			"profile in the update bundle",
			rewrite(b.name(t, ".index.json"),
				`"profile":"`+b.manifest.Profile, `"profile":"other`),
			".index.json: about [",
		},
		{
			"a digest in the update bundle",
			rewrite(b.name(t, ".index.json"), claimOf(b, ".root"),
				strings.Repeat("0", 64)),
			".index.json: ",
		},
		{"a file is gone", func(t *testing.T, dir string) {
			remove(t, dir, b.name(t, ".qcow2"))
		}, "no such file"},
		{
			"a digit in SHA256SUMS",
			rewrite(image.SumsName, b.manifest.Files[0].SHA256[:8],
				"00000000"),
			"SHA256SUMS: lacks the line",
		},
		{
			"a line more in SHA256SUMS",
			rewrite(image.SumsName, "\n", "\n\n"),
			"SHA256SUMS: has more",
		},
		{
			"version in the manifest",
			claim(func(m *manifest.Manifest) { m.Version = "9.9.9" }),
			`version "` + b.manifest.Version,
		},
		{
			"image in the manifest",
			claim(func(m *manifest.Manifest) { m.ImageID = "other" }),
			`image "` + b.manifest.ImageID,
		},
		{
			"architecture in the manifest",
			claim(func(m *manifest.Manifest) {
				m.Arch = "riscv64"
			}),
			"no root or no verity partition for riscv64",
		},
		{
			"profile in the manifest",
			claim(func(m *manifest.Manifest) { m.Profile = "other" }),
			"manifest.json",
		},
		{
			"kernel in the manifest",
			claim(func(m *manifest.Manifest) { m.Kernel = "6.0" }),
			`kernel "` + b.manifest.Kernel,
		},
		{
			"command line in the manifest",
			claim(func(m *manifest.Manifest) { m.Cmdline += " x" }),
			"command line ",
		},
		{
			"root hash in the manifest",
			claim(func(m *manifest.Manifest) {
				m.RootHash = strings.Repeat("0", 64)
			}),
			"no root or no verity partition",
		},
		{
			"path of the UKI in the manifest",
			claim(func(m *manifest.Manifest) {
				m.UKI = "EFI/Linux/other.efi"
			}),
			"EFI/Linux/other.efi",
		},
		{
			"disk size in the manifest",
			claim(func(m *manifest.Manifest) { m.DiskSize += 1 << 20 }),
			"disk ",
		},
		{
			"partition in the manifest",
			claim(func(m *manifest.Manifest) {
				m.Partitions[2].Start += 4096
			}),
			"partition table: ",
		},
		{
			"package in the manifest",
			claim(func(m *manifest.Manifest) { m.Packages[0].Version = "0" }),
			"manifest.json",
		},
		{
			"an unknown field in the manifest",
			rewrite(image.ManifestName, `"format"`,
				`"formats": 1, "format"`),
			`unknown field "formats"`,
		},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.name == chunks {
				judge.Long(t, "qcow2: nothing but the sum of the whole file finds that, either")
			}

			dir := linked(t, b)
			test.change(t, dir)
			_, err := verify.Build(t.Context(), dir, meter.None)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// claimOf is the digest of a file in the manifest.
func claimOf(b build, suffix string) string {
	for _, f := range b.manifest.Files {
		if strings.HasSuffix(f.Name, suffix) {
			return f.SHA256
		}
	}
	return ""
}

// linked is a directory with links to all files of the build.
func linked(t *testing.T, b build) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, e := range entries {
		err := os.Symlink(filepath.Join(b.dir, e.Name()), filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// own replaces the link by a copy and returns its path.
func own(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	from, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}

	remove(t, dir, name)
	copySparse(t, from, path)
	return path
}

// flip inverts the byte at offset of a copy of the file.
func flip(t *testing.T, dir, name string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(own(t, dir, name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}

	b[0] ^= 0xff
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}

func flipFile(b build, suffix string, offset int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) { flip(t, dir, b.name(t, suffix), offset) }
}

func flipRaw(b build, offset int64) func(*testing.T, string) { return flipFile(b, ".raw", offset) }

// flipFound inverts the first byte of text where the ESP has it.
func flipFound(b build, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		esp := b.partition(t, partitions.ESP)
		f, err := os.Open(b.file(t, ".raw"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()

		start := make([]byte, 64<<20) // the UKI is at the start of the ESP
		if _, err := f.ReadAt(start, esp.Start); err != nil {
			t.Fatal(err)
		}

		at := bytes.Index(start, []byte(text))
		if at < 0 {
			t.Fatalf("%q is not on the ESP", text)
		}

		flip(t, dir, b.name(t, ".raw"), esp.Start+int64(at))
	}
}

// rewrite replaces the first old by new.
func rewrite(name, old, new string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := own(t, dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		err = os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// claim changes the manifest.
func claim(change func(*manifest.Manifest)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		m := open(t, dir).manifest
		change(&m)

		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}

		remove(t, dir, image.ManifestName)
		if err := os.WriteFile(filepath.Join(dir, image.ManifestName), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
