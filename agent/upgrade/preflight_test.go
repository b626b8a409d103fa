package upgrade

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/power"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/test/firmware"
)

// ready is a node that may be upgraded, and an index that fits it.
func ready() (View, Facts, bundle.Index) {
	now := time.Unix(1e9, 0)
	v := View{Running: System{"1.0.0", "aa"}, Entries: []disk.Entry{entry("1.0.0", false, 0, 0)}}
	v.Entries[0].RootHash = "aa"
	f := Facts{
		Arch:    "amd64",
		ImageID: "loam-node-os",
		Room: Room{
			Root:    1 << 30,
			Verity:  1 << 24,
			ESP:     1 << 30,
			Entries: 100,
			State:   1 << 30,
		},
		Epoch: 2,
		Now:   now,
		Pace:  time.Hour,
	}

	idx := bundle.Index{
		ImageID:  "loam-node-os",
		Version:  "2.0.0",
		Arch:     "amd64",
		Epoch:    2,
		RootHash: "bb",
		Root:     bundle.Part{Size: 1 << 28},
		Verity:   bundle.Part{Size: 1 << 21},
		UKI:      bundle.Part{Size: 1 << 25},
	}

	return v, f, idx
}

// signedImage is signed by the first of its certificates, which the second has
// issued.
func signedImage(t testing.TB) authenticode.Image {
	t.Helper()
	return firmware.Image(t, "../../firmware/authenticode/testdata/signed.efi")
}

// db has a certificate.
func db(der []byte) []efivar.Signature { return []efivar.Signature{{Type: efivar.X509, Data: der}} }

func TestPreflight(t *testing.T) {
	signed := signedImage(t)

	for _, test := range []struct {
		name   string
		change func(v *View, f *Facts, idx *bundle.Index, w *Options)
		code   fault.Code
	}{
		{"all is well", func(*View, *Facts, *bundle.Index, *Options) {}, ""},
		{"another architecture", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.Arch = "arm64"
		}, fault.WrongArchitecture},
		{"another image", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.ImageID = "other-node-os"
		}, fault.WrongImage},
		{"a version too long for an entry", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.Version = "2.0.0-rc.1.build.77"
		}, fault.NameTooLong},
		{"a root that is too large", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Room.Root = 1 << 27
		}, fault.SlotTooSmall},
		{"a verity tree that is too large", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Room.Verity = 1
		}, fault.SlotTooSmall},
		{"an ESP that is full", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Room.ESP = 1 << 20
		}, fault.ESPFull},
		{"a directory of entries that is full", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Room.Entries = 0
		}, fault.DirectoryFull},
		{"a state partition that is full", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Room.State = 1 << 25
		}, fault.StateFull},
		{
			"one that is full, of what is under way",
			func(v *View, f *Facts, idx *bundle.Index, _ *Options) {
				v.Journal = &Journal{Target: System{idx.Version, idx.RootHash}, From: v.Running}
				f.Room.State = 0
			},
			"",
		},
		{"a loader of another disk", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Room.OtherDisk = true
		}, fault.OtherDisk},
		{
			"a partition table that cannot be repaired",
			func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
				f.Room.Table = errors.New("write backup partition table: input/output error")
			},
			fault.DiskError,
		},
		{"what runs", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.RootHash = "aa"
			idx.Version = "1.0.0"
		}, fault.AlreadyRunning},
		{"another system of that version", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.Version = "1.0.0"
		}, fault.AlreadyRunning},
		{"an old epoch", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.Epoch = 1
		}, fault.OldEpoch},
		{
			"an old epoch, however much it is wanted",
			func(_ *View, _ *Facts, idx *bundle.Index, w *Options) {
				idx.Epoch = 1
				w.Again = true
			},
			fault.OldEpoch,
		},
		{"one that failed", func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
			v.Failed = []Failure{{Version: "2.0.0", RootHash: "bb"}}
		}, fault.FailedBefore},
		{"one that failed, again", func(v *View, _ *Facts, _ *bundle.Index, w *Options) {
			v.Failed = []Failure{{Version: "2.0.0", RootHash: "bb"}}
			w.Again = true
		}, ""},
		{"an older one", func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
			idx.Version = "0.9.0"
		}, fault.Downgrade},
		{
			"an older one of an old epoch, however much it is permitted",
			func(_ *View, _ *Facts, idx *bundle.Index, w *Options) {
				idx.Version = "0.9.0"
				idx.Epoch = 1
				w.Downgrade = true
			},
			fault.OldEpoch,
		},
		{"an older one, on purpose", func(_ *View, _ *Facts, idx *bundle.Index, w *Options) {
			idx.Version = "0.9.0"
			w.Downgrade = true
		}, ""},
		{"too soon after the last", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Last = f.Now.Add(-time.Minute)
		}, fault.TooSoon},
		{
			"too soon, but the last could not be fetched",
			func(v *View, f *Facts, _ *bundle.Index, _ *Options) {
				f.Last = f.Now.Add(-time.Minute)
				v.Journal = &Journal{Phase: Staging, Target: System{"3.0.0", "cc"}}
			},
			"",
		},
		{"too soon, and hurried", func(_ *View, f *Facts, _ *bundle.Index, w *Options) {
			f.Last = f.Now.Add(-time.Minute)
			w.Now = true
		}, ""},
		{
			"a clock that was set back since the last",
			func(_ *View, f *Facts, _ *bundle.Index, _ *Options) { f.Last = f.Now.Add(time.Hour) },
			"",
		},
		{"another one that is armed", func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
			v.Journal = &Journal{Phase: Armed, Target: System{"3.0.0", "cc"}}
		}, fault.UpgradeUnderWay},
		{"another one that is not", func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
			v.Journal = &Journal{Phase: Staging, Target: System{"3.0.0", "cc"}}
		}, ""},
		{"the same one under way", func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
			v.Journal = &Journal{Target: System{"2.0.0", "bb"}}
		}, ""},
		{"firmware that knows the signer", func(_ *View, f *Facts, idx *bundle.Index, _ *Options) {
			f.Firmware = secureboot.State{On: true, Allowed: db(signed.Signatures[0][1])}
			idx.Authenticode = &signed
		}, ""},
		{"firmware with an empty db", func(_ *View, f *Facts, idx *bundle.Index, _ *Options) {
			f.Firmware.On, idx.Authenticode = true, &signed
		}, fault.NotInDB},
		{"firmware that forbids the signer", func(_ *View, f *Facts, idx *bundle.Index, w *Options) {
			f.Firmware = secureboot.State{
				On:        true,
				Allowed:   db(signed.Signatures[0][1]),
				Forbidden: db(signed.Signatures[0][0]),
			}
			idx.Authenticode = &signed
			w.Again = true
			w.Now = true
			w.Downgrade = true
		}, fault.ForbiddenByDBX},
		{"an unsigned UKI", func(_ *View, f *Facts, idx *bundle.Index, _ *Options) {
			f.Firmware.On, idx.Authenticode = true, &authenticode.Image{SHA256: signed.SHA256}
		}, fault.UKINotSigned},
		{
			"a UKI for which the TPM does not open the state",
			func(_ *View, f *Facts, idx *bundle.Index, _ *Options) {
				f.PCRKey = "mine"
				idx.PCRKeys = []string{"another"}
			},
			fault.PCRNotSigned,
		},
		{
			"a UKI for which it does",
			func(_ *View, f *Facts, idx *bundle.Index, _ *Options) {
				f.PCRKey = "mine"
				idx.PCRKeys = []string{"another", "mine"}
			},
			"",
		},
		{
			"an unsigned UKI, and Secure Boot is off",
			func(_ *View, _ *Facts, idx *bundle.Index, _ *Options) {
				idx.Authenticode = &authenticode.Image{}
			},
			"",
		},
		{
			"an index that does not say who has signed",
			func(_ *View, f *Facts, _ *bundle.Index, _ *Options) { f.Firmware.On = true },
			"",
		},
		{"a battery that is low", func(_ *View, f *Facts, _ *bundle.Index, w *Options) {
			f.Power = power.State{OnBattery: true, Charge: 29}
			w.Now = true
		}, fault.BatteryLow},
		{"a battery that is not", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Power = power.State{OnBattery: true, Charge: 30}
		}, ""},
		{"a battery that does not tell", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Power = power.State{OnBattery: true, Charge: -1}
		}, ""},
		{"a battery that is low, and charged", func(_ *View, f *Facts, _ *bundle.Index, _ *Options) {
			f.Power = power.State{Charge: 3}
		}, ""},
		{"a system without an entry", func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
			v.Entries = nil
		}, fault.NoBootEntry},
		{
			"a system that has used up its tries, and runs for want of another",
			func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
				v.Entries[0].Counted, v.Entries[0].TriesDone = true, 3
			},
			fault.Unproven,
		},
		{"a system on trial", func(v *View, _ *Facts, _ *bundle.Index, _ *Options) {
			v.Entries[0].Counted, v.Entries[0].TriesLeft = true, 2
		}, fault.Unproven},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, f, idx := ready()
			var w Options
			test.change(&v, &f, &idx, &w)
			refusedWith(t, Preflight(v, f, idx, w), test.code)
		})
	}
}

// refusedWith fails unless an error is a refusal of that code, or none for "".
func refusedWith(t *testing.T, err error, code fault.Code) {
	t.Helper()
	switch {
	case code == "" && err != nil:
		t.Errorf("refused: %v", err)
	case code != "" && (fault.Of(err) != code || strings.Contains(err.Error(), "%!")):
		t.Errorf("error %v, want code %s", err, code)
	}
}

func TestPreflightBack(t *testing.T) {
	signed := signedImage(t)
	for _, test := range []struct {
		name   string
		change func(v *View, f *Facts)
		code   fault.Code
	}{
		{"to one that was blessed", func(*View, *Facts) {}, ""},
		{"to one at rest", func(v *View, _ *Facts) {
			v.Entries[1] = entry("0.9.0", true, 0, 0)
		}, ""},
		{"to one that failed", func(v *View, _ *Facts) {
			v.Entries[1] = entry("0.9.0", true, 0, 3)
		}, fault.NoOtherSystem},
		{"to an empty slot", func(v *View, _ *Facts) { v.Holds = "" }, fault.NoOtherSystem},
		{"to one without an entry", func(v *View, _ *Facts) {
			v.Entries = v.Entries[:1]
		}, fault.NoOtherSystem},
		{"to one of another image", func(_ *View, f *Facts) {
			f.ImageID = "other-node-os"
		}, fault.NoOtherSystem},
		{"to one of an old epoch", func(_ *View, f *Facts) { f.Epoch = 3 }, fault.OldEpoch},
		{"by a directory of entries that is full", func(_ *View, f *Facts) {
			f.Room.Entries = 0
		}, fault.DirectoryFull},
		{"by a loader of another disk", func(_ *View, f *Facts) {
			f.Room.OtherDisk = true
		}, fault.OtherDisk},
		{"from one on trial", func(v *View, _ *Facts) {
			v.Entries[0].Counted, v.Entries[0].TriesLeft = true, 2
		}, fault.Unproven},
		{"past another one that is armed", func(v *View, _ *Facts) {
			v.Journal = &Journal{Phase: Armed, Target: System{"3.0.0", "cc"}}
		}, fault.UpgradeUnderWay},
		{"to one that the firmware has come to forbid", func(_ *View, f *Facts) {
			f.Firmware = secureboot.State{
				On:        true,
				Allowed:   db(signed.Signatures[0][1]),
				Forbidden: db(signed.Signatures[0][0]),
			}
		}, fault.ForbiddenByDBX},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, f, _ := ready()
			v.Entries = append(v.Entries, entry("0.9.0", false, 0, 0))
			v.Holds = "0.9.0"
			test.change(&v, &f)

			target, err := PreflightRollback(v, f, 2, &signed)
			if err == nil && target != (System{"0.9.0", "0.9.0"}) {
				t.Errorf("back to %v", target)
			}

			refusedWith(t, err, test.code)
		})
	}
}
