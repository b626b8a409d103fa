package image

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/judge"
)

func TestSfdiskFindsNoError(t *testing.T) {
	b := underTest(t)
	out := judge.Run(t, "sfdisk", "--verify", b.file(t, ".raw"))
	if !strings.Contains(out, "No errors detected.") || !strings.Contains(out, "Using 8 out of 128 partitions.") {
		t.Errorf("sfdisk --verify:\n%s", out)
	}
}

func TestVeritysetupVerifiesTheRootHash(t *testing.T) {
	b := underTest(t)
	judge.Run(t, "veritysetup", "verify", b.file(t, ".root"), b.file(t, ".verity"), b.manifest.RootHash)
	tree := b.partition(t, partitions.RootVerity)
	// The hash device is read from an offset of the disk, the data from the file that is in its root partition.
	judge.Run(t, "veritysetup", "verify", fmt.Sprint("--hash-offset=", tree.Start), b.file(t, ".root"), b.file(t, ".raw"), b.manifest.RootHash)
}

func TestFsckErofsReadsTheRoot(t *testing.T) {
	b := underTest(t)
	judge.Run(t, "fsck.erofs", "--extract", b.file(t, ".root"))
	root := b.partition(t, partitions.Root)
	judge.Run(t, "fsck.erofs", "--extract", fmt.Sprint("--offset=", root.Start), b.file(t, ".raw"))
}

func TestFsckFatFindsNoErrorOnTheESP(t *testing.T) {
	b := underTest(t)
	esp := filepath.Join(t.TempDir(), "esp")
	cut(t, b, partitions.ESP, esp)
	judge.Run(t, "fsck.fat", "-n", "-v", esp)
}

// cut copies a partition of the disk image to a file.
func cut(t *testing.T, b build, role partitions.Role, file string) {
	t.Helper()
	p := b.partition(t, role)
	judge.Run(t, "qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=1M", "if="+b.file(t, ".raw"), "of="+file,
		fmt.Sprint("skip=", p.Start>>20), fmt.Sprint("count=", (p.Start+p.Size)>>20))
}

// systemdArch is what systemd calls an architecture.
var systemdArch = map[string]string{"amd64": "x86-64", "arm64": "arm64"}

// TestDissect has systemd open the image as it would on a machine, by the
// Discoverable Partitions Specification, with verity and nothing less.
func TestDissect(t *testing.T) {
	b := underTest(t)
	// A copy of another name: systemd-dissect takes NAME.verity beside NAME.raw for the verity data of a file system.
	raw := filepath.Join(t.TempDir(), "disk.raw")
	copySparse(t, b.file(t, ".raw"), raw)
	judge.Run(t, "systemd-dissect", "--validate", "--root-hash="+b.manifest.RootHash, "--image-policy=root=verity", raw)
	var got struct {
		Architecture    string
		UseBootableUefi bool
		OSRelease       []string `json:"osRelease"`
		Mounts          []struct {
			Designator, FSType, Verity string
			UUID                       string `json:"partition_uuid"`
		}
	}
	out := judge.Run(t, "systemd-dissect", "--json=short", "--root-hash="+b.manifest.RootHash, raw)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !got.UseBootableUefi || got.Architecture != systemdArch[b.manifest.Arch] || !strings.Contains(strings.Join(got.OSRelease, "\n"), "IMAGE_VERSION="+b.manifest.Version) {
		t.Errorf("systemd-dissect: %+v", got)
	}
	seen := map[string]string{}
	for _, m := range got.Mounts {
		seen[m.Designator] = strings.TrimRight(m.FSType+" "+m.Verity, " ")
		if m.Designator == "root" && m.UUID != b.rootUUID().String() {
			t.Errorf("root partition %s, want %s", m.UUID, b.rootUUID())
		}
	}
	want := map[string]string{"root": "erofs yes", "root-verity": "DM_verity_hash", "esp": "vfat", "var": ""}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// TestDissectSeesASignature has a signature beside the root file system, as loamctl build --sign-key places it.
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
	content, err := verity.NewSignature(hash, []byte("a certificate"), []byte("a signature")).Encode()
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
	judge.Run(t, "systemd-dissect", "--validate", "--image-policy=root=signed", raw) // The root hash is in the signature.
}

func TestUkifyInspectsTheUKI(t *testing.T) {
	b := underTest(t)
	release, err := os.ReadFile("../../os-release")
	if err != nil {
		t.Fatal(err)
	}
	out := judge.Run(t, "ukify", "--json=short", "inspect", b.file(t, ".efi"))
	var got map[string]struct {
		Size int
		Text string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for section, want := range map[string]string{".osrel": string(release), ".cmdline": b.manifest.Cmdline, ".uname": b.manifest.Kernel} {
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

// TestBootctlListsTheEntries has systemd read the ESP as its loader would: the system, and last the recovery entry.
func TestBootctlListsTheEntries(t *testing.T) {
	b, tree := underTest(t), tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}
	esp := t.TempDir()
	judge.Run(t, "mcopy", "-s", "-i", fmt.Sprintf("%s@@%d", b.file(t, ".raw"), b.partition(t, partitions.ESP).Start), "::", esp)
	if _, err := os.Stat(filepath.Join(esp, "loader/random-seed")); err == nil {
		t.Error("the ESP has a random seed, which the loader would write to")
	}
	// The directory stands for a mounted ESP: it is a mount, though not of FAT.
	out, err := tree.Command(t.Context(), []string{esp}, "env", "SYSTEMD_RELAX_ESP_CHECKS=1",
		"bootctl", "--esp-path="+esp, "--json=short", "list").CombinedOutput()
	if err != nil {
		t.Fatalf("bootctl: %v\n%s", err, out)
	}
	type entry struct{ Type, ID, Version, Options string }
	var got []entry
	if err := json.Unmarshal(out, &got); err != nil { // a complaint about loader.conf is no JSON either
		t.Fatalf("%v\n%s", err, out)
	}
	want := []entry{
		{"type2", filepath.Base(b.manifest.UKI), b.manifest.Version, b.manifest.Cmdline},
		{Type: "type1", ID: "recovery.conf"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestQcow2HoldsTheRawImage(t *testing.T) {
	b := underTest(t)
	if out := judge.Run(t, "qemu-img", "check", b.file(t, ".qcow2")); !strings.Contains(out, "No errors were found") {
		t.Errorf("qemu-img check:\n%s", out)
	}
	judge.Run(t, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", b.file(t, ".raw"), b.file(t, ".qcow2"))
}

func TestSha256sumAgrees(t *testing.T) {
	b := underTest(t)
	t.Chdir(b.dir)
	out := judge.Run(t, "sha256sum", "--check", "--strict", "SHA256SUMS")
	if n := strings.Count(out, ": OK\n"); n != len(b.manifest.Files)+1 {
		t.Errorf("%d files are OK, want %d and the manifest:\n%s", n, len(b.manifest.Files), out)
	}
}
