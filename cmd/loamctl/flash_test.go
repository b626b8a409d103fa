package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/flash"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/gpt"
)

func TestUnfitDisksAreNotFlashed(t *testing.T) {
	im := flash.Image{Table: gpt.Table{SectorSize: 512, DiskSize: 3 << 30}}

	for _, test := range []struct {
		name   string
		change func(d *volume.Disk)
		want   string
	}{
		{"nothing", func(*volume.Disk) {}, ""},
		{"what is on it is no reason", func(d *volume.Disk) {
			d.Content.Evidence = []volume.Evidence{{Name: "gpt", Offset: 512}}
		}, ""},
		{"it is in use", func(d *volume.Disk) {
			d.Uses = []string{"mounted at /", "swap area"}
		}, "it is in use: mounted at /, swap area\nhint: unmount"},
		{"it is read-only", func(d *volume.Disk) {
			d.ReadOnly = true
		}, "read-only\nhint: an SD card"},
		{"other sectors", func(d *volume.Disk) {
			d.SectorSize = 4096
		}, "hint: loamctl build --sector-size 4096"},
		{"it is too small", func(d *volume.Disk) {
			d.Size = 3<<30 - 512
		}, "it has 3071 MiB, the image needs 3072 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := volume.Disk{Device: "/dev/sdb", Size: 8 << 30, SectorSize: 512}
			test.change(&d)
			if err := obstacle(d, im); (err == nil) != (test.want == "") ||
				(err != nil && !strings.Contains(hint.Text(err), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestADiskIsOverwrittenOnlyIfItIsNamed(t *testing.T) {
	disk := volume.Disk{Device: "/dev/sdb", Serial: "S1"}
	for _, test := range []struct {
		name, typed, flag string
		disk              volume.Disk
		wrong             bool
	}{
		{name: "its serial number is typed", typed: "S1\n", disk: disk},
		{
			name:  "another is typed",
			typed: "S2\n",
			disk:  disk,
			wrong: true,
		},
		{
			name:  "its node is typed",
			typed: "/dev/sdb\n",
			disk:  disk,
			wrong: true,
		},
		{
			name:  "nothing is typed",
			typed: "\n",
			disk:  disk,
			wrong: true,
		},
		{name: "no operator is there", disk: disk, wrong: true},
		{name: "by the flag", flag: "S1", disk: disk},
		{
			name:  "the flag names another",
			flag:  "S2",
			typed: "S1\n",
			disk:  disk,
			wrong: true,
		},
		{
			name:  "a disk without a serial number",
			typed: "/dev/sdc\n",
			disk:  volume.Disk{Device: "/dev/sdc"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			f := flashing{wipe: test.flag, in: strings.NewReader(test.typed), out: &out}
			err := f.confirm(t.Context(), test.disk)
			if (err != nil) != test.wrong ||
				(test.wrong && !strings.HasSuffix(err.Error(), "nothing was written")) {
				t.Errorf("%v", err)
			}

			asked := strings.Contains(out.String(), "Type "+word(test.disk))
			if asked != (test.flag == "") {
				t.Errorf("asks %q", out.String())
			}

			const ended = "\nhint: without a terminal, answer with --yes-wipe S1"
			noInput := test.typed == "" && test.flag == ""
			if noInput != strings.HasSuffix(out.String(), ": \n") ||
				(noInput && !strings.HasSuffix(hint.Text(err), ended)) {
				t.Errorf("end of input: %q, %s", out.String(), hint.Text(err))
			}
		})
	}
}

func TestAWrongAnswerSaysWhichDiskItIs(t *testing.T) {
	all := []volume.Disk{
		{Device: "/dev/sdb", Serial: "S1", Model: "Flash Drive", Size: 32 << 30},
		{Device: "/dev/sdc", Serial: "S2", Size: 1 << 40},
	}
	bare := volume.Disk{Device: "/dev/vda", Size: 8 << 30}
	for _, test := range []struct {
		name, said string
		disk       volume.Disk
		want       string
	}{
		{
			name: "nothing like it",
			said: "S3",
			disk: all[0],
			want: `/dev/sdb: its serial number is not "S3": nothing was written
hint: this disk is /dev/sdb (Flash Drive, 32 GiB, serial number S1): is it the disk to lose? ` +
				"if not, name another as DEVICE",
		},
		{
			name: "the serial number of another",
			said: "S2",
			disk: all[0],
			want: `/dev/sdb: its serial number is not "S2": nothing was written
hint: S2 is another disk: /dev/sdc (unknown model, 1024 GiB, serial number S2); ` +
				"this one is /dev/sdb (Flash Drive, 32 GiB, serial number S1): which of them is meant?",
		},
		{
			name: "its device",
			said: "/dev/sdb",
			disk: all[0],
			want: `/dev/sdb: its serial number is not "/dev/sdb": nothing was written
hint: another disk may be /dev/sdb after a restart, so the serial number is asked for; ` +
				"this one is /dev/sdb (Flash Drive, 32 GiB, serial number S1)",
		},
		{
			name: "a disk without a serial number",
			said: "S3",
			disk: bare,
			want: `/dev/vda: its device, as it has no serial number, is not "S3": nothing was written
hint: this disk is /dev/vda (unknown model, 8 GiB, without a serial number): ` +
				"is it the disk to lose? if not, name another as DEVICE",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, hint.Text(mismatch(test.disk, test.said, all))); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
}

func TestADryRunWritesNothingAndAsksNothing(t *testing.T) {
	device := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(device, []byte("what is there"), 0o400); err != nil {
		t.Fatal(err)
	}

	disk := volume.Disk{
		Device:     device,
		Serial:     "S1",
		Size:       8 << 30,
		SectorSize: 512,
	}
	im := flash.Image{
		Table: gpt.Table{DiskSize: 3 << 30, Partitions: []gpt.Partition{
			{
				Index: 1,
				Label: "esp",
				Start: 1 << 20,
				Size:  1 << 30,
			},
			{
				Index: 8,
				Label: "state",
				Start: 1025 << 20,
				Size:  2 << 30,
			},
		}},
		Extents: []flash.Extent{{Off: 0, Len: 180 << 20}},
	}

	var out strings.Builder
	f := flashing{out: &out}
	if err := f.rehearse(t.Context(), disk, im); err != nil {
		t.Fatal(err)
	}
	want := "\nwould write 180 MiB to " + device + ":\n" +
		"  1  esp                             at 1 MiB     1024 MiB\n" +
		"  8  state                           at 1025 MiB  2048 MiB\n" +
		"     for the last partition to grow  at 3072 MiB  5120 MiB\n" +
		"All that the disk holds would be lost. Nothing was written.\n"
	if out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
	if text, err := os.ReadFile(device); err != nil || string(text) != "what is there" {
		t.Errorf("the disk holds %q, %v", text, err)
	}

	f.wipe = "S2"
	if err := f.rehearse(t.Context(), disk, im); err == nil {
		t.Error("another disk may be wiped, and no error")
	}
	disk.Device += "-gone"
	f.wipe = ""
	if err := f.rehearse(t.Context(), disk, im); err == nil {
		t.Error("there is no disk, and no error")
	}
}

func TestADiskIsNotWrittenToItself(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"disk", "part", "image"} {
		if err := os.WriteFile(path(name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("disk", path("by-id")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path("disk"), path("node")); err != nil {
		t.Fatal(err)
	}

	disk := volume.Disk{
		Device: path("disk"),
		Parts:  []volume.Part{{Device: path("no-node")}, {Device: path("part")}},
	}
	for image, want := range map[string]string{
		"disk":                               "it is the disk itself: " + path("disk"),
		"by-id":                              "it is the disk itself: " + path("disk"),
		"../" + filepath.Base(dir) + "/disk": "it is the disk itself: " + path("disk"),
		"node":                               "it is the disk itself: " + path("disk"),
		"part":                               "it is the disk itself: " + path("part"),
		"none":                               "none: no such file or directory",
		"image":                              "",
	} {
		err := refuseSame(dir+"/"+image, disk)
		if (err == nil) != (want == "") || (err != nil && !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", image, err, want)
		}
	}
}

func TestFlashShowsTheDiskInPlainWords(t *testing.T) {
	var out strings.Builder
	f := flashing{out: &out}
	fat := volume.Content{Evidence: []volume.Evidence{{Name: "vfat"}, {Name: "vfat", Offset: 82}}}
	f.show(volume.Disk{
		Device:     "/dev/sdb",
		Size:       500107862016,
		SectorSize: 512,
		Content:    volume.Content{Evidence: []volume.Evidence{{Name: "PMBR"}, {Name: "gpt"}}},
		Parts: []volume.Part{{
			Device:  "/dev/sdb1",
			Label:   "esp",
			Size:    1 << 30,
			Content: fat,
		}},
	}, flash.Image{}, "image.raw", "")

	for _, want := range []string{
		"size          465.8 GiB, sectors of 512 bytes, fixed\n",
		"holds         GUID partition table\n",
		"              /dev/sdb1: 1 GiB, esp: FAT file system\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s, want %q", out.String(), want)
		}
	}
}

func TestFlashSaysWhichMachineYAMLTheDiskGets(t *testing.T) {
	disk := volume.Disk{Device: "/dev/sdb"}
	for _, test := range []struct{ name, flag, text, want string }{
		{"the file of the flag", "node.yaml", "kind: Machine\n", "machine.yaml  node.yaml\n"},
		{"the image's", "", "kind: Machine\n", "machine.yaml  of the image, "},
		{"none", "", "", "machine.yaml  none: the machine waits for one, "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			f := flashing{machine: test.flag, out: &out}
			f.show(disk, flash.Image{}, "image.raw", test.text)
			if !strings.Contains(out.String(), test.want) {
				t.Errorf("%s, want %q", out.String(), test.want)
			}
		})
	}
}

func TestInterruptEndsTheQuestion(t *testing.T) {
	in, typist := io.Pipe() // Nothing is typed.
	defer typist.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()

	f := flashing{in: in, out: io.Discard}
	err := f.confirm(ctx, volume.Disk{Device: "/dev/sdb"})
	const want = "/dev/sdb: interrupted at the question: nothing was written"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
