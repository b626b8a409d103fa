package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/diskless"
)

const gib = 1 << 30

// TestClaimsAreRemembered: Made is what no claim takes away.
func TestClaimsAreRemembered(t *testing.T) {
	mine := machine.Volume{DiskClaim: machine.DiskClaim{Serial: "S1"}, FileSystem: "xfs"}
	of := func(made bool) volume.Record {
		return volume.Record{Claim: volume.OfSize(50 * gib), FileSystem: "ext4", Made: made}
	}
	own := volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "xfs"}
	for _, test := range []struct {
		name   string
		before volume.Record
		claim  machine.Volume
		size   int64
		want   volume.Record
	}{
		{name: "nothing is claimed"},
		{name: "machine.yaml claims", claim: mine, want: own},
		{name: "Gardener claims", size: 50 * gib, want: of(false)},
		{
			name:  "machine.yaml counts before Gardener",
			claim: mine,
			size:  50 * gib,
			want:  own,
		},
		{
			name:   "a claim changes, and the volume was made",
			before: of(true),
			claim:  mine,
			want:   volume.Record{Claim: own.Claim, FileSystem: "xfs", Made: true},
		},
		{name: "a claim of machine.yaml goes that never had a disk", before: own},
		{
			name:   "what a configuration asked for stays: only a configuration knows",
			before: of(false),
			want:   of(false),
		},
		{name: "a claim goes, and its volume stays", before: of(true), want: of(true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := New(diskless.Volume(t), zap.NewNop())
			if test.before != (volume.Record{}) {
				if err := volume.Data.WriteRecord(d.Dir, test.before); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Configure(t.Context(), test.claim, test.size); err != nil {
				t.Fatal(err)
			}

			got, there, err := volume.Data.ReadRecord(d.Dir.Root().FS())
			if err != nil || got != test.want || there != (test.want != volume.Record{}) {
				t.Errorf("%+v, %v, %v", got, there, err)
			}
		})
	}
}

// TestAKubeletThatRunsWaitsForNoVolume: the volume waits for a restart of the
// machine, even if the kubelet restarts before.
func TestAKubeletThatRunsWaitsForNoVolume(t *testing.T) {
	d := New(diskless.Volume(t), zap.NewNop())
	later := filepath.Join(d.Path, volume.DeferFile)

	err := d.Configure(t.Context(), machine.Volume{DiskClaim: machine.DiskClaim{Serial: "S1"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(later); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no kubelet runs, and it may start without the volume: %v", err)
	}

	d.InUse = func(context.Context) bool { return true }

	err = d.Configure(t.Context(), machine.Volume{DiskClaim: machine.DiskClaim{Serial: "S2"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(later); err != nil {
		t.Error(err)
	}
}

func TestChangedTellsTheProblem(t *testing.T) {
	d := New(diskless.Volume(t), zap.NewNop())

	err := d.Configure(t.Context(), machine.Volume{DiskClaim: machine.DiskClaim{Serial: "S1"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ensure(t.Context()); !errors.Is(err, volume.ErrNone) {
		t.Fatal(err)
	}
	if got := <-d.Changed(); !strings.HasPrefix(got.Problem, "no data volume: no disk that is free matches; the machine has no disk at all") {
		t.Errorf("%+v", got)
	}
}

// TestMountsThatCannotBeListed end no agent: its limit of open files may be used up, and
// it watches again later.
func TestMountsThatCannotBeListed(t *testing.T) {
	v := diskless.Volume(t)
	if err := os.Remove(filepath.Join(v.Path, "proc/self/mountinfo")); err != nil {
		t.Fatal(err)
	}
	err := New(v, zap.NewNop()).Watch(t.Context(), func(err error) {
		t.Errorf("the agent ends: %v", err)
	})
	if err == nil || !strings.Contains(err.Error(), "list mounts") {
		t.Error(err)
	}
}
