package agent

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

// claiming is a node that is to make a cluster with a volume for etcd, and the
// directories that it measures.
func claiming(t *testing.T) (*testNode, *[]string) {
	t.Helper()
	n := unidentified(t)
	measured := []string{}
	n.Fsync = func(_ context.Context, directory string) (time.Duration, error) {
		measured = append(measured, withoutRoot(n, directory))
		return 12 * time.Millisecond, nil
	}
	n.claims(t, "{init: {}, etcdVolume: {serial: S1}}")
	n.reset = n.newReset()
	return n, &measured
}

// claims replaces machine.yaml.
func (n *testNode) claims(t *testing.T, cluster string) {
	t.Helper()
	files.Write(t, filepath.Join(n.Root, source.RunPath), clusterMachine+"cluster: "+cluster+"\n")
}

// mounted has the volume of etcd mounted.
func (n *testNode) mounted(t *testing.T) {
	t.Helper()
	files.Write(t, filepath.Join(n.Root, "proc/self/mountinfo"),
		"24 23 8:16 / "+volume.Etcd.Mountpoint+" rw,noatime shared:4 - ext4 /dev/sdb rw\n")
}

// TestTheMountpointIsThatOfEtcd: the volume has what the unit of etcd writes.
func TestTheMountpointIsThatOfEtcd(t *testing.T) {
	if volume.Etcd.Mountpoint != plane.Directories()[0] {
		t.Errorf("%s, and etcd has its data in %s", volume.Etcd.Mountpoint, plane.Directories()[0])
	}
}

// TestNoClusterWithoutItsEtcdVolume: the cluster is not made on the state partition
// while the disk is missing.
func TestNoClusterWithoutItsEtcdVolume(t *testing.T) {
	n, measured := claiming(t)
	n.identify(t.Context())
	if n.first.record != nil || n.controlPlane != nil || len(*measured) > 0 {
		t.Errorf("a cluster, measured %q", *measured)
	}
	if v := <-n.etcdData.Changed(); v == nil ||
		!strings.HasPrefix(v.Problem, "no disk for cluster.etcdVolume: ") {
		t.Errorf("the volume is %+v", v)
	}
	record, claimed, err := volume.Etcd.ReadRecord(n.root.FS())
	if err != nil || !claimed || record.Claim != (volume.Claim{Serial: "S1"}) || record.Made {
		t.Errorf("record %+v, %v", record, err)
	}

	// Without the claim, the cluster is made on the state partition.
	n.claims(t, "{init: {}}")
	n.identify(t.Context())
	if n.first.record == nil || len(*measured) != 1 || (*measured)[0] != "ROOT/var/lib" {
		t.Errorf("measured %q; %+v", *measured, n.status.Error)
	}
}

// TestTheEtcdVolumeIsMeasured, and not the disk of the state.
func TestTheEtcdVolumeIsMeasured(t *testing.T) {
	n, measured := claiming(t)
	err := volume.Etcd.WriteRecord(n.etcdData.Dir, volume.Record{FileSystem: "ext4", Made: true})
	if err != nil {
		t.Fatal(err)
	}
	n.mounted(t)
	n.identify(t.Context())
	if n.first.record == nil || len(*measured) != 1 || (*measured)[0] != "ROOT"+volume.Etcd.Mountpoint {
		t.Errorf("measured %q; %+v", *measured, n.status.Error)
	}
}

// TestAnEtcdVolumeOfAnotherCluster: the state was lost, and the volume was not.
func TestAnEtcdVolumeOfAnotherCluster(t *testing.T) {
	n, _ := claiming(t)
	err := volume.Etcd.WriteRecord(n.etcdData.Dir, volume.Record{FileSystem: "ext4", Made: true})
	if err != nil {
		t.Fatal(err)
	}
	n.mounted(t)
	files.Write(t, filepath.Join(n.Root, volume.Etcd.Mountpoint, "member/snap/db"), "data")
	n.identify(t.Context())
	if e := n.status.Error; n.first.record != nil || e == nil || e.Code != fault.CannotBeApplied || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

// TestTheEtcdVolumeIsClaimedAgain: without a cluster, another disk may be the volume.
func TestTheEtcdVolumeIsClaimedAgain(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		n, _ := claiming(t)
		n.claims(t, "{init: {}}")
		n.identify(t.Context())
		if clustered {
			n.makeCluster(t)
		}
		before := volume.Record{Claim: volume.Claim{Serial: "S0"}, FileSystem: "ext4", Made: true}
		if err := volume.Etcd.WriteRecord(n.etcdData.Dir, before); err != nil {
			t.Fatal(err)
		}

		n.claims(t, "{init: {}, etcdVolume: {serial: S1}}")
		n.identify(t.Context())
		want := before
		want.Claim.Serial = "S1"
		want.Made = clustered
		got, _, err := volume.Etcd.ReadRecord(n.root.FS())
		if err != nil || got != want {
			t.Errorf("with a cluster %v: %+v, %v", clustered, got, err)
		}
	}
}

// TestAnEtcdVolumeThatComesLater is refused, and the cluster goes on.
func TestAnEtcdVolumeThatComesLater(t *testing.T) {
	n, measured := claiming(t)
	n.claims(t, "{init: {}}")
	n.identify(t.Context())
	n.makeCluster(t)
	before := len(*measured)

	n.claims(t, "{init: {}, etcdVolume: {serial: S1}}")
	n.controlPlane = nil
	n.identify(t.Context())
	e := n.status.Error
	if e == nil || e.Code != fault.CannotBeApplied || e.Path != volume.Etcd.Field || e.Hint == "" {
		t.Errorf("%+v", e)
	}
	if n.controlPlane == nil || n.source == nil || len(*measured) != before {
		t.Errorf("the cluster ends, measured %q", *measured)
	}
	if _, claimed, err := volume.Etcd.ReadRecord(n.root.FS()); claimed || err != nil {
		t.Errorf("etcd waits for the volume: %v", err)
	}
}
