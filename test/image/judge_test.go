package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/judge"
)

// disk is the raw image, for judges.
func (b build) disk(t *testing.T) judge.Disk {
	t.Helper()
	esp := b.partition(t, partitions.ESP)
	return judge.Disk{
		File:       b.file(t, ".raw"),
		SectorSize: b.manifest.SectorSize,
		ESPStart:   esp.Start,
		ESPSize:    esp.Size,
	}
}

func TestSfdiskFindsNoError(t *testing.T) { underTest(t).disk(t).Table(t) }

func TestVeritysetupVerifiesTheRootHash(t *testing.T) {
	b := underTest(t)
	judge.Run(t, "veritysetup", "verify", b.file(t, ".root"), b.file(t, ".verity"),
		b.manifest.RootHash)
	tree := b.partition(t, partitions.RootVerity)
	// The hash device is read from an offset of the disk, the data from the
	// file that is in its root partition.
	judge.Run(t, "veritysetup", "verify", fmt.Sprint("--hash-offset=", tree.Start),
		b.file(t, ".root"), b.file(t, ".raw"), b.manifest.RootHash)
}

func TestFsckErofsReadsTheRoot(t *testing.T) {
	b := underTest(t)
	judge.Run(t, "fsck.erofs", "--extract", b.file(t, ".root"))
	root := b.partition(t, partitions.Root)
	judge.Run(t, "fsck.erofs", "--extract", fmt.Sprint("--offset=", root.Start), b.file(t, ".raw"))
}

func TestFsckFatFindsNoErrorOnTheESP(t *testing.T) { underTest(t).disk(t).FAT(t) }

// systemdArch is what systemd calls an architecture.
var systemdArch = map[string]string{"amd64": "x86-64", "arm64": "arm64"}

func TestDissect(t *testing.T) {
	b := underTest(t)
	got := b.disk(t).Dissect(t, b.manifest.RootHash)
	if !got.UseBootableUefi || got.Architecture != systemdArch[b.manifest.Arch] ||
		!strings.Contains(strings.Join(got.OSRelease, "\n"), "IMAGE_VERSION="+b.manifest.Version) {
		t.Errorf("systemd-dissect: %+v", got)
	}

	seen := map[string]string{}
	for _, m := range got.Mounts {
		seen[m.Designator] = strings.TrimRight(m.FSType+" "+m.Verity, " ")
		if m.Designator == "root" && m.UUID != b.rootUUID().String() {
			t.Errorf("root partition %s, want %s", m.UUID, b.rootUUID())
		}
	}

	want := map[string]string{
		"root":        "erofs yes",
		"root-verity": "DM_verity_hash",
		"esp":         "vfat",
		"var":         "",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// TestDissectSeesASignature has a signature beside the root file system, as
// loamctl build --sign-key places it.
func TestDissectSeesASignature(t *testing.T) {
	b := underTest(t)
	raw := filepath.Join(t.TempDir(), "signed.raw")
	copySparse(t, b.file(t, ".raw"), raw)

	disk, err := os.OpenFile(raw, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	table, err := gpt.Read(disk, b.manifest.DiskSize, b.manifest.SectorSize)
	if err != nil {
		t.Fatal(err)
	}

	slots, err := partitions.Slots(table, b.manifest.Arch)
	if err != nil {
		t.Fatal(err)
	}

	hash, _ := slots[0].Holds(table, b.manifest.Arch)
	content, err := verity.NewSignature(hash, []byte("a certificate"),
		[]byte("a signature")).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.WriteAt(content, table.Partition(slots[0].Sig).Start); err != nil {
		t.Fatal(err)
	}

	label := b.manifest.ImageID + "_" + b.manifest.Version
	if err := slots[0].Seal(table, b.manifest.Arch, hash, label, true).Write(disk); err != nil {
		t.Fatal(err)
	}

	// The root hash is in the signature.
	judge.Run(t, "systemd-dissect", "--validate", "--image-policy=root=signed", raw)
}

func TestUkifyInspectsTheUKI(t *testing.T) {
	b := underTest(t)
	release, err := os.ReadFile("../../os-release")
	if err != nil {
		t.Fatal(err)
	}

	got := judge.Inspect(t, b.file(t, ".efi"))
	for section, want := range map[string]string{
		".osrel":   string(release),
		".cmdline": b.manifest.Cmdline,
		".uname":   b.manifest.Kernel,
	} {
		if got[section].Text != want {
			t.Errorf("%s: %q, want %q", section, got[section].Text, want)
		}
	}

	for _, section := range []string{".linux", ".initrd", ".sbat"} {
		if got[section].Size == 0 {
			t.Errorf("no section %s", section)
		}
	}
}

// TestBootctlListsTheEntries: the system, and last the recovery entry.
func TestBootctlListsTheEntries(t *testing.T) {
	b := underTest(t)
	want := []judge.Entry{
		{
			Type:    "type2",
			ID:      filepath.Base(b.manifest.UKI),
			Version: b.manifest.Version,
			Options: b.manifest.Cmdline,
		},
		{Type: "type1", ID: "recovery.conf"},
	}
	if diff := cmp.Diff(want, b.disk(t).Entries(t)); diff != "" {
		t.Error(diff)
	}
}

func TestQcow2HoldsTheRawImage(t *testing.T) {
	b := underTest(t)
	out := judge.Run(t, "qemu-img", "check", b.file(t, ".qcow2"))
	if !strings.Contains(out, "No errors were found") {
		t.Errorf("qemu-img check:\n%s", out)
	}
	judge.Run(t, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", b.file(t, ".raw"),
		b.file(t, ".qcow2"))
}

// TestSha256sumAgrees has openssl sum up the disks: their zeros are most of all
// bytes, and sha256sum takes five times as long for them.
func TestSha256sumAgrees(t *testing.T) {
	b := underTest(t)
	dir := linked(t, b)
	t.Chdir(dir)
	sums := read(t, dir, image.SumsName)
	disks := []string{b.name(t, ".raw"), b.name(t, image.InstallerSuffix)}
	for _, name := range disks {
		out := judge.Run(t, "openssl", "dgst", "-sha256", "-r", name)
		sum, _, _ := strings.Cut(out, " ")
		if !strings.Contains(sums, sum+"  "+name+"\n") {
			t.Errorf("openssl: %s", out)
		}
		remove(t, dir, name)
	}

	out := judge.Run(t, "sha256sum", "--check", "--strict", "--ignore-missing", image.SumsName)
	want := len(b.manifest.Files) + 1 - len(disks)
	if n := strings.Count(out, ": OK\n"); n != want {
		t.Errorf("%d files are OK, want %d and the manifest:\n%s", n, want-1, out)
	}
}
