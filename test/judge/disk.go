package judge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/tools"
)

// Disk is a raw disk image with a system on it.
type Disk struct {
	File       string
	SectorSize int
	// ESPStart and ESPSize are of its EFI system partition, in bytes.
	ESPStart, ESPSize int64
}

// Table has sfdisk verify the partition table.
func (d Disk) Table(t testing.TB) {
	t.Helper()
	out := Run(t, "sfdisk", "--sector-size", fmt.Sprint(d.SectorSize), "--verify", d.File)
	if !strings.Contains(out, "No errors detected.") ||
		!strings.Contains(out, "Using 8 out of 128 partitions.") {
		t.Errorf("sfdisk --verify:\n%s", out)
	}
}

// FAT has fsck.fat look at the ESP.
func (d Disk) FAT(t testing.TB) {
	t.Helper()
	esp := filepath.Join(t.TempDir(), "esp")
	d.cut(t, esp)

	out := Run(t, "fsck.fat", "-n", "-v", esp)
	for _, complaint := range []string{"differ", "wrong", "irty"} { // It ends well with these.
		if strings.Contains(out, complaint) {
			t.Errorf("fsck.fat:\n%s", out)
		}
	}
}

// cut copies the ESP to a file.
func (d Disk) cut(t testing.TB, file string) {
	t.Helper()
	Run(t, "dd", "bs=1M", "conv=sparse", "status=none", "if="+d.File, "of="+file,
		fmt.Sprint("skip=", d.ESPStart>>20), fmt.Sprint("count=", d.ESPSize>>20))
}

// Dissected is what systemd-dissect says of a disk.
type Dissected struct {
	Architecture    string
	UseBootableUefi bool
	OSRelease       []string `json:"osRelease"`
	Mounts          []struct {
		Designator, FSType, Verity string
		UUID                       string `json:"partition_uuid"`
	}
}

// Dissect makes systemd open the disk as it would on a machine, by the
// Discoverable Partitions Specification, with verity of that root hash and
// nothing less.
func (d Disk) Dissect(t testing.TB, rootHash string) (got Dissected) {
	t.Helper()

	// A copy of another name: systemd-dissect takes NAME.verity beside NAME.raw
	// for the verity data of a file system.
	raw := filepath.Join(t.TempDir(), "disk.raw")
	Run(t, "cp", "--sparse=always", d.File, raw)
	Run(t, "systemd-dissect", "--validate", "--root-hash="+rootHash,
		"--image-policy=root=verity", raw)

	out := Run(t, "systemd-dissect", "--json=short", "--root-hash="+rootHash, raw)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	return got
}

// Repart fails if systemd-repart would change the disk, by definitions in a
// directory: but for the end of the last partition, which ours has at a border
// of 1 MiB, systemd at one of 4 KiB.
func (d Disk) Repart(t testing.TB, definitions string) {
	t.Helper()
	definitions, err := filepath.Abs(definitions)
	if err != nil {
		t.Fatal(err)
	}

	out := Run(t, "systemd-repart", "--definitions="+definitions,
		fmt.Sprint("--sector-size=", d.SectorSize), "--empty=refuse", "--dry-run=yes",
		"--json=short", d.File)

	var plan []struct {
		Label, Activity string
		OldSize         int64 `json:"old_size"`
		RawSize         int64 `json:"raw_size"`
	}

	err = json.NewDecoder(strings.NewReader(out[max(0, strings.Index(out, "[")):])).Decode(&plan)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	for i, p := range plan {
		more := p.RawSize - p.OldSize
		if p.Activity != "unchanged" && (i != len(plan)-1 || more < 0 || more >= 1<<20) {
			t.Errorf("systemd-repart would change %+v", p)
		}
	}
}

// ESP copies the files of the ESP to a directory.
func (d Disk) ESP(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	Run(t, "mcopy", "-s", "-i", fmt.Sprintf("%s@@%d", d.File, d.ESPStart), "::", dir)
	return dir
}

// Section is one of a UKI's, as ukify shows it.
type Section struct {
	Size   int64
	Text   string
	SHA256 string
}

// Inspect has ukify read a UKI.
func Inspect(t testing.TB, file string) (got map[string]Section) {
	t.Helper()
	out := Run(t, "ukify", "--json=short", "inspect", file)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return got
}

// Entry is a boot entry.
type Entry struct{ Type, ID, Version, Options string }

// Entries has bootctl read the ESP as systemd's loader does.
func (d Disk) Entries(t testing.TB) (got []Entry) {
	t.Helper()
	tree := tools.Tree{Dir: Dir(t, "LOAM_TOOLS_TREE")}

	esp := d.ESP(t)
	if _, err := os.Stat(filepath.Join(esp, "loader/random-seed")); err == nil {
		t.Error("the ESP has a random seed, which the loader would write to")
	}

	// The directory stands for a mounted ESP: it is a mount, though not of FAT.
	out, err := tree.Command(t.Context(), []string{esp}, "env", "SYSTEMD_RELAX_ESP_CHECKS=1",
		"bootctl", "--esp-path="+esp, "--json=short", "list").CombinedOutput()
	if err != nil {
		t.Fatalf("bootctl: %v\n%s", err, out)
	}

	err = json.Unmarshal(out, &got)
	if err != nil { // a complaint about loader.conf is no JSON either
		t.Fatalf("%v\n%s", err, out)
	}

	return got
}
