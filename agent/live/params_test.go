package live

import (
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/partitions"
)

func TestParseParams(t *testing.T) {
	root := "roothash=" + strings.Repeat("ab", 32)
	disk := strings.Repeat("cd", 32)

	for _, test := range []struct{ name, line, want, wrong string }{
		{
			name: "over the network",
			line: root + " loam.from=network loam.disk=sha256:" + disk,
			want: FromNetwork,
		},
		{name: "without a word", line: root + " loam.server=http://192.0.2.1", want: FromNetwork},
		{
			name: "from a USB installer",
			line: "quiet " + root + " loam.from=stick loam.disk=sha256:" + disk,
			want: FromInstaller,
		},
		{name: "from elsewhere", line: root + " loam.from=tape", wrong: "want network or stick"},
		{name: "no root hash", line: "quiet", wrong: "roothash="},
		{name: "another digest", line: root + " loam.disk=md5:" + disk, wrong: "want sha256:"},
		{
			name:  "half a digest",
			line:  root + " loam.disk=sha256:" + disk[:32],
			wrong: "not 64 hexadecimal digits",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := ParseParams(test.line)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("%v, want %q", err, test.wrong)
				}
				return
			}
			if err != nil || p.From != test.want || p.RootHash[0] != 0xab ||
				(strings.Contains(test.line, "disk") && p.Disk != disk) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

func TestDecideState(t *testing.T) {
	const size = 64 << 30
	disk := func(device string, change ...func(*stateDisk)) stateDisk {
		d := stateDisk{Disk: volume.Disk{
			Device:     device,
			Size:       size,
			SectorSize: 512,
			Serial:     "S-" + device[len("/dev/"):],
		}}
		for _, c := range change {
			c(&d)
		}
		return d
	}

	data := func(name string) func(*stateDisk) {
		return func(d *stateDisk) {
			d.Content.Evidence = append(d.Content.Evidence,
				volume.Evidence{Name: name, Offset: 1080})
		}
	}

	state := func(d *stateDisk) {
		d.label = partitions.StateLabel
		d.size = d.Size
		data("ext4")(d)
	}

	partitioned := func(d *stateDisk) {
		data("dos")(d)
		d.Parts = []volume.Part{{Device: d.Device + "1"}}
	}
	inFile := func(d *stateDisk) {
		d.Content.Evidence = append(d.Content.Evidence,
			volume.Evidence{Name: "btrfs", Offset: 1<<20 + 64<<10})
	}

	small := func(d *stateDisk) { d.size = 1 << 30 }
	corrupt := func(d *stateDisk) { d.corrupt = true }
	marked := func(d *stateDisk) { d.marked = true; data(volume.Unknown)(d) }
	used := func(d *stateDisk) { d.Uses = []string{"mounted at /"} }
	anyDisk := volume.Claim{MinSize: 1 << 30}
	for _, test := range []struct {
		name  string
		disks []stateDisk
		claim volume.Claim
		want  boot.State
		why   string
	}{
		{
			name:  "an empty disk",
			disks: []stateDisk{disk("/dev/sda")},
			claim: anyDisk,
			want: boot.State{
				Device: "/dev/sda",
				Size:   size,
				Format: true,
				Grow:   true,
			},
		},
		{
			name:  "the state, before an empty disk",
			disks: []stateDisk{disk("/dev/sda"), disk("/dev/sdb", state)},
			claim: anyDisk,
			want:  boot.State{Device: "/dev/sdb", Size: size},
		},
		{
			name:  "the state, on a disk that has grown and has a corrupt superblock",
			disks: []stateDisk{disk("/dev/sdb", state, small, corrupt)},
			claim: anyDisk,
			want: boot.State{
				Device: "/dev/sdb",
				Size:   size,
				Grow:   true,
				Repair: true,
			},
		},
		{
			name:  "the state of another node",
			disks: []stateDisk{disk("/dev/sda"), disk("/dev/sdb", state)},
			claim: volume.Claim{Serial: "S-sda"},
			why:   "/dev/sdb has a node's state already",
		},
		{
			name:  "the states of two other nodes",
			disks: []stateDisk{disk("/dev/sda"), disk("/dev/sdb", state), disk("/dev/sdc", state)},
			claim: volume.Claim{Serial: "S-sda"},
			why:   "/dev/sdb has a node's state already",
		},
		{
			name:  "two states, one of them claimed",
			disks: []stateDisk{disk("/dev/sda", state), disk("/dev/sdb", state)},
			claim: volume.Claim{Serial: "S-sda"},
			want:  boot.State{Device: "/dev/sda", Size: size},
		},
		{
			name:  "two states",
			disks: []stateDisk{disk("/dev/sda", state), disk("/dev/sdb", state)},
			claim: anyDisk,
			why:   "/dev/sda and /dev/sdb have a node's state already",
		},
		{
			name:  "a power cut while it was formatted",
			disks: []stateDisk{disk("/dev/sda", marked, data("ext4"))},
			claim: anyDisk,
			want: boot.State{
				Device: "/dev/sda",
				Size:   size,
				Format: true,
				Grow:   true,
			},
		},
		{
			name:  "a disk with a mark that has been used since",
			disks: []stateDisk{disk("/dev/sda", marked, data("xfs"))},
			claim: anyDisk,
			why:   "xfs",
		},
		{
			name:  "a state whose disk has been partitioned since",
			disks: []stateDisk{disk("/dev/sda", state, partitioned)},
			claim: anyDisk,
			why:   "MBR partition table",
		},
		{
			name:  "a state whose disk has become part of a RAID",
			disks: []stateDisk{disk("/dev/sda", state, data("linux_raid_member"))},
			claim: anyDisk,
			why:   "member of a Linux RAID",
		},
		{
			name:  "a state with a file that looks like a file system",
			disks: []stateDisk{disk("/dev/sda", state, inFile)},
			claim: anyDisk,
			want:  boot.State{Device: "/dev/sda", Size: size},
		},
		{
			name:  "a foreign file system",
			disks: []stateDisk{disk("/dev/sda", data("ext4"))},
			claim: volume.Claim{Serial: "S-sda"},
			why:   "ext4",
		},
		{
			name:  "a disk in use",
			disks: []stateDisk{disk("/dev/sda", state, used)},
			claim: anyDisk,
			why:   "no disk that is free",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := decideState(test.disks, test.claim)
			if test.why != "" {
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Errorf("%v, want %q", err, test.why)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}
