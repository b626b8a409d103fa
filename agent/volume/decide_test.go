package volume

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// choice returns the choice of a disk on which there is no file system yet.
func choice(action Action, device string, size int64) Choice {
	return Choice{Action: action, Device: device, Size: size}
}

func TestDecide(t *testing.T) {
	disk := func(device string, size int64, change ...func(*Disk)) Disk {
		d := Disk{
			Device:     device,
			Size:       size,
			SectorSize: 512,
			Serial:     "S-" + device[5:],
			WWID:       "naa." + device[5:],
			Paths:      []string{"path-" + device[5:]},
		}
		for _, c := range change {
			c(&d)
		}
		return d
	}

	data := func(d *Disk) { d.Content.Evidence = []Evidence{{"zfs_member", "", 131072}} }
	mounted := func(d *Disk) { d.Uses = []string{"mounted at /"}; data(d) }
	ours := func(d *Disk) {
		d.Content = Content{
			Evidence:   []Evidence{{"ext4", "", 1080}},
			Volume:     Label,
			FileSystem: "ext4",
			Used:       d.Size,
		}
	}

	cut := func(d *Disk) {
		d.Content = Content{Evidence: []Evidence{{marked, "", 0}}, Volume: Label, Unfinished: true}
	}

	dead := func(d *Disk) { d.Content.Evidence = []Evidence{{Name: Unreadable}} }
	removable := func(d *Disk) { d.Removable = true }
	network := func(d *Disk) { d.Network = "iSCSI" }
	parts := func(fs string) func(*Disk) {
		return func(d *Disk) {
			d.Parts = []Part{
				{
					Device:  d.Device + "1",
					Size:    d.Size - mib,
					Content: Content{Volume: Label, FileSystem: fs, Used: d.Size - mib},
				},
			}
			d.Content.Evidence = []Evidence{{"gpt", "", 512}}
		}
	}

	const wanted = 50 * gib
	for _, test := range []struct {
		name  string
		disks []Disk
		claim Claim
		made  bool
		field string
		want  Choice
		why   string
	}{
		{
			name:  "the empty disk of that size",
			disks: []Disk{disk("/dev/sda", 20*gib, mounted), disk("/dev/sdb", wanted)},
			claim: OfSize(wanted),
			want:  choice(ToFormat, "/dev/sdb", wanted),
		},
		{
			name:  "one a few MiB smaller, as controllers keep some",
			disks: []Disk{disk("/dev/sdb", wanted-8*mib)},
			claim: OfSize(wanted),
			want:  choice(ToFormat, "/dev/sdb", wanted-8*mib),
		},
		{
			name:  "of two, that of just the size",
			disks: []Disk{disk("/dev/sda", wanted+mib), disk("/dev/sdb", wanted)},
			claim: OfSize(wanted),
			want:  choice(ToFormat, "/dev/sdb", wanted),
		},
		{
			name:  "the one of just the size has data, so it may be the one that was meant",
			disks: []Disk{disk("/dev/sda", wanted+mib), disk("/dev/sdb", wanted, data)},
			claim: OfSize(wanted),
			why:   "no disk that matches is empty",
		},
		{
			name:  "one 17 MiB larger is another",
			disks: []Disk{disk("/dev/sdb", wanted+17*mib)},
			claim: OfSize(wanted),
			why:   "no disk that is free matches",
		},
		{
			name:  "of two of that size, the empty one",
			disks: []Disk{disk("/dev/sda", wanted, data), disk("/dev/sdb", wanted)},
			claim: OfSize(wanted),
			want:  choice(ToFormat, "/dev/sdb", wanted),
		},
		{
			name:  "two empty ones",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted)},
			claim: OfSize(wanted),
			why:   "more than one empty disk matches",
		},
		{
			name:  "two that match, one with data, and the claim does not say that it is the empty one",
			disks: []Disk{disk("/dev/sda", wanted, data), disk("/dev/sdb", wanted)},
			claim: Claim{MinSize: wanted},
			why:   "more than one disk matches",
		},
		{
			name:  "the system disk is of the same size",
			disks: []Disk{disk("/dev/sda", wanted, mounted), disk("/dev/sdb", wanted)},
			claim: Claim{MinSize: wanted},
			want:  choice(ToFormat, "/dev/sdb", wanted),
		},
		{
			name:  "by serial, among others",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted)},
			claim: Claim{Serial: "S-sdb"},
			want:  choice(ToFormat, "/dev/sdb", wanted),
		},
		{
			name:  "by serial, with data",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted, data)},
			claim: Claim{Serial: "S-sdb"},
			why:   "no disk that matches is empty",
		},
		{
			name:  "by path and a size that is not true",
			disks: []Disk{disk("/dev/sdb", wanted)},
			claim: Claim{Path: "path-sdb", MaxSize: gib},
			why:   "no disk that is free matches",
		},
		{
			name:  "a USB drive is not taken as a data volume",
			disks: []Disk{disk("/dev/sda", wanted, removable)},
			claim: Claim{OnlyEmpty: true},
			why:   "no disk that is free matches",
		},
		{
			name:  "but it can be claimed",
			disks: []Disk{disk("/dev/sda", wanted, removable)},
			claim: Claim{Serial: "S-sda"},
			want:  choice(ToFormat, "/dev/sda", wanted),
		},
		{
			name:  "a disk of the network is not taken as a data volume",
			disks: []Disk{disk("/dev/sda", wanted, network)},
			claim: Claim{OnlyEmpty: true},
			why:   "no disk that is free matches",
		},
		{
			name:  "but it can be claimed, too",
			disks: []Disk{disk("/dev/sda", wanted, network)},
			claim: Claim{Serial: "S-sda"},
			want:  choice(ToFormat, "/dev/sda", wanted),
		},
		{
			name:  "and a volume that it has is used",
			disks: []Disk{disk("/dev/sda", wanted, network, ours)},
			claim: Claim{OnlyEmpty: true},
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sda",
				FileSystem: "ext4",
				Size:       wanted,
			},
		},
		{
			name:  "a disk that cannot be read may be the volume",
			disks: []Disk{disk("/dev/sda", wanted, dead), disk("/dev/sdb", wanted)},
			claim: Claim{OnlyEmpty: true},
			why:   "a disk that matches cannot be read, and may be the volume",
		},
		{
			name:  "read-only",
			disks: []Disk{disk("/dev/sda", wanted, func(d *Disk) { d.ReadOnly = true })},
			claim: Claim{OnlyEmpty: true},
			why:   "no disk that matches is empty",
		},
		{
			name: "partitions of a table that only the kernel knows",
			disks: []Disk{disk("/dev/sda", wanted, func(d *Disk) {
				d.Parts = []Part{{Device: "/dev/sda1"}}
			})},
			claim: Claim{OnlyEmpty: true},
			why:   "no disk that matches is empty",
		},
		{
			name: "the same disk twice",
			disks: []Disk{
				disk("/dev/sda", wanted),
				disk("/dev/sdb", wanted, func(d *Disk) { d.WWID, d.Serial = "naa.sda", "S-sda" }),
			},
			claim: Claim{Path: "path-sda"},
			why:   "no disk that matches is empty",
		},
		{
			name: "the same disk twice, which says its serial number once",
			disks: []Disk{
				disk("/dev/sda", wanted),
				disk("/dev/sdb", wanted, func(d *Disk) { d.WWID, d.Serial = "naa.sda", "" }),
			},
			claim: Claim{Path: "path-sda"},
			why:   "no disk that matches is empty",
		},
		{
			name: "two drives with one WWID, and serial numbers of their own",
			disks: []Disk{
				disk("/dev/sda", wanted),
				disk("/dev/sdb", wanted, func(d *Disk) { d.WWID = "naa.sda" }),
			},
			claim: Claim{Serial: "S-sda"},
			want:  choice(ToFormat, "/dev/sda", wanted),
		},
		{
			name:  "a volume, and an empty disk",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", 70*gib, ours)},
			claim: OfSize(wanted),
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sdb",
				FileSystem: "ext4",
				Size:       70 * gib,
			},
		},
		{
			name:  "a volume that is mounted",
			disks: []Disk{disk("/dev/sdb", wanted, mounted, ours)},
			claim: OfSize(wanted),
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sdb",
				FileSystem: "ext4",
				Size:       wanted,
			},
		},
		{
			name: "a volume whose disk has grown",
			disks: []Disk{disk("/dev/sdb", 2*wanted, func(d *Disk) {
				ours(d)
				d.Content.Used = wanted
			})},
			claim: OfSize(wanted),
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sdb",
				FileSystem: "ext4",
				Grow:       true,
				Size:       2 * wanted,
			},
		},
		{
			name:  "a volume on a partition",
			disks: []Disk{disk("/dev/sdb", wanted, parts("xfs"))},
			claim: OfSize(wanted),
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sdb1",
				FileSystem: "xfs",
				Size:       wanted,
			},
		},
		{
			name:  "the volume is on another disk than is claimed",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted, ours)},
			claim: Claim{Serial: "S-sda"},
			why:   "there is a data volume already, on a disk that is not claimed",
		},
		{
			name:  "two volumes",
			disks: []Disk{disk("/dev/sda", wanted, ours), disk("/dev/sdb", wanted, ours)},
			claim: OfSize(wanted),
			why:   "there is more than one data volume",
		},
		{
			name:  "two volumes, one of them claimed",
			disks: []Disk{disk("/dev/sda", wanted, ours), disk("/dev/sdb", wanted, ours)},
			claim: Claim{Path: "path-sdb"},
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sdb",
				FileSystem: "ext4",
				Size:       wanted,
			},
		},
		{
			name:  "the volume of a USB drive that was plugged in",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", gib, ours, removable)},
			claim: OfSize(wanted),
			want:  choice(ToFormat, "/dev/sda", wanted),
		},
		{
			name:  "what a power cut has left, and an empty disk",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted, cut)},
			claim: OfSize(wanted),
			want:  choice(ToFinish, "/dev/sdb", wanted),
		},
		{
			name: "what a power cut has left is in use",
			disks: []Disk{disk("/dev/sdb", wanted, cut, func(d *Disk) {
				d.Uses = []string{ErrBusy.Error()}
			})},
			claim: OfSize(wanted),
			why:   "an unfinished data volume is not free",
		},
		{
			name:  "the volume's disk is late, and another is empty",
			disks: []Disk{disk("/dev/sda", wanted)},
			claim: OfSize(wanted),
			made:  true,
			why:   "the data volume that the node had is not there",
		},
		{
			name:  "the volume's disk was replaced, by a person",
			disks: []Disk{disk("/dev/sda", wanted)},
			claim: Claim{Serial: "S-sda"},
			made:  true,
			want:  choice(ToFormat, "/dev/sda", wanted),
		},
		{
			name:  "the volume is there",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted, ours)},
			claim: OfSize(wanted),
			made:  true,
			want: Choice{
				Action:     ToUse,
				Device:     "/dev/sdb",
				FileSystem: "ext4",
				Size:       wanted,
			},
		},
		{
			name:  "a data volume, where another use is claimed",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted, ours)},
			claim: Claim{Serial: "S-sdb"},
			field: "install.disk",
			why:   "no disk that matches is empty",
		},
		{
			name:  "an empty disk beside a data volume, for another use",
			disks: []Disk{disk("/dev/sda", wanted), disk("/dev/sdb", wanted, ours)},
			claim: Claim{Serial: "S-sda"},
			field: "install.disk",
			want:  choice(ToFormat, "/dev/sda", wanted),
		},
		{name: "no claim", disks: []Disk{disk("/dev/sda", wanted)}, why: "no disk is claimed"},
		{name: "no disk", claim: OfSize(wanted), why: "no disk that is free matches"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Decide(Facts{Disks: test.disks, Made: test.made, Field: test.field},
				test.claim)
			refusal := &Refusal{}
			errors.As(err, &refusal)
			if refusal.Why != test.why || (err != nil) != errors.Is(err, ErrNone) {
				t.Errorf("why: %q, want %q", refusal.Why, test.why)
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusalNamesTheEvidenceAndTheWayOn(t *testing.T) {
	_, err := Decide(Facts{Disks: []Disk{
		{
			Device:  "/dev/sda",
			Size:    500107862016,
			Model:   "FAST",
			Uses:    []string{"mounted at /var"},
			Content: Content{Evidence: []Evidence{{"gpt", "", 512}}},
		},
		{
			Device: "/dev/sdc",
			Size:   100 * gib,
			Model:  "FAST",
			Serial: "S2",
		},
		{
			Device: "/dev/sdb",
			Size:   100 * gib,
			Model:  "FAST",
			Serial: "S1",
		},
		{
			Device: "/dev/sdd",
			Size:   100*gib + 5*mib,
			Serial: "S3",
			Content: Content{Evidence: []Evidence{
				{"crypto_LUKS", "2", 0},
				{"linux_raid_member", "1.0", 107379539968},
			}},
		},
	}}, Claim{MinSize: 90 * gib, MaxSize: 110 * gib})
	if code := fault.Of(err); code != fault.DiskNotEmpty {
		t.Errorf("code %s", code)
	}

	const want = `no data volume: more than one empty disk matches (claimed: 96636764160 to 118111600640 bytes)
  /dev/sdb: 100 GiB, FAST, serial S1, matches: empty
    to take it: dataVolume: {serial: "S1"}
  /dev/sdc: 100 GiB, FAST, serial S2, matches: empty
    to take it: dataVolume: {serial: "S2"}
  /dev/sdd: 100.0 GiB, unknown model, serial S3, matches: LUKS encryption, member of a Linux RAID
    to take it once it is empty: dataVolume: {serial: "S3"}
  /dev/sda: 465.8 GiB, FAST: mounted at /var
hint: write the line of the disk that is meant to machine.yaml
hint: a disk with content is never formatted: if nothing on it is needed, empty it from another system (wipefs --all, and zeros in its first and last MiB)`
	if diff := cmp.Diff(want, hint.Text(err)); diff != "" {
		t.Errorf("Error (-want +got):\n%s", diff)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "500107862016": 500107862016, "100Gi": 100 * gib, "100G": 100e9, "2Ti": 2048 * gib,
		"7k": 7000, "8Ki": 8192, "3M": 3e6, "1P": 1e15,
		"": 0, "0": 0, "Gi": 0, "-1Gi": 0, "+1": 0, "1.5Gi": 0, "1K": 0, "1GiB": 0, "1iG": 0,
		"1Gii": 0, "9000000Ti": 0, "1 Gi": 0, "99999999999999999999": 0,
	} {
		if got, err := ParseSize(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}
