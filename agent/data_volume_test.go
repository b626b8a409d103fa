package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/volume"
)

const gib = 1 << 30

// diskless is a node without any disk.
func diskless(t *testing.T) *dataVolume {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sys/block", "proc/self", "var/lib/loam", "run/loam"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "proc/self/mountinfo"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &dataVolume{
		Node: volume.Node{Machine: volume.Machine{Root: os.DirFS(dir)}, Dir: durable.New(root, nil), Path: dir, InUse: func(context.Context) bool { return false }},
		log:  zap.NewNop(), changed: make(chan *status.Volume, 1),
	}
}

// TestWhatANodeRemembersOfClaims: Made is what no claim takes away.
func TestWhatANodeRemembersOfClaims(t *testing.T) {
	mine := machine.DataVolume{Disk: machine.Disk{Serial: "S1"}, FileSystem: "xfs"}
	of := func(made bool) volume.Record {
		return volume.Record{Claim: volume.OfSize(50 * gib), FileSystem: "ext4", Made: made}
	}
	own := volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "xfs"}
	for _, test := range []struct {
		name   string
		before volume.Record
		claim  machine.DataVolume
		size   int64
		want   volume.Record
	}{
		{name: "nothing is claimed"},
		{name: "machine.yaml claims", claim: mine, want: own},
		{name: "Gardener claims", size: 50 * gib, want: of(false)},
		{name: "machine.yaml counts before Gardener", claim: mine, size: 50 * gib, want: own},
		{name: "a claim changes, and the volume was made", before: of(true), claim: mine, want: volume.Record{Claim: own.Claim, FileSystem: "xfs", Made: true}},
		{name: "a claim of machine.yaml goes that never had a disk", before: own},
		{name: "what a configuration asked for stays: only a configuration knows", before: of(false), want: of(false)},
		{name: "a claim goes, and its volume stays", before: of(true), want: of(true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := diskless(t)
			if test.before != (volume.Record{}) {
				if err := test.before.Write(d.Dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.claims(t.Context(), test.claim, test.size); err != nil {
				t.Fatal(err)
			}
			got, there, err := volume.ReadRecord(d.Dir.Root().FS())
			if err != nil || got != test.want || there != (test.want != volume.Record{}) {
				t.Errorf("%+v, %v, %v", got, there, err)
			}
		})
	}
}

// TestAKubeletThatRunsWaitsForNoVolume, whoever restarts it, until the machine does.
func TestAKubeletThatRunsWaitsForNoVolume(t *testing.T) {
	d := diskless(t)
	later := filepath.Join(d.Path, volume.LaterFile)
	if err := d.claims(t.Context(), machine.DataVolume{Disk: machine.Disk{Serial: "S1"}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(later); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no kubelet runs, and it may start without the volume: %v", err)
	}
	d.InUse = func(context.Context) bool { return true }
	if err := d.claims(t.Context(), machine.DataVolume{Disk: machine.Disk{Serial: "S2"}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(later); err != nil {
		t.Error(err)
	}
}

// applying is an engine that counts.
type applying struct {
	Engine
	n int
}

func (a *applying) Apply(context.Context, apply.Request) (generation.Manifest, error) {
	a.n++
	return generation.Manifest{}, nil
}

// nodeAgentText is a configuration of Gardener's node agent.
const nodeAgentText = "apiVersion: nodeagent.config.gardener.cloud/v1alpha1\nkind: NodeAgentConfiguration\napiServer: {server: 'https://api'}\n" +
	"controllers: {operatingSystemConfig: {secretName: s, kubernetesVersion: 1.36.3}}\n"

func TestAConfigurationWaitsForTheVolumeThatItClaims(t *testing.T) {
	file := func(path, text string) config.Desired {
		return config.Desired{Files: []config.File{{Path: path, Content: config.Inline([]byte(text))}}}
	}
	const agentFile = "/var/lib/gardener-node-agent/config-v1.150.0.yaml"
	sized := file(agentFile, nodeAgentText+"bootstrap: {kubeletDataVolumeSize: 53687091200}\n")
	for _, test := range []struct {
		name    string
		before  volume.Record
		own     bool
		used    bool
		desired config.Desired
		applied bool
		err     string
	}{
		{name: "no volume", desired: file("/etc/a", "bootstrap: {kubeletDataVolumeSize: 1}"), applied: true},
		{name: "a node agent without one", desired: file(agentFile, nodeAgentText), applied: true},
		{name: "a size, and no disk", desired: sized, err: "no disk that is free matches"},
		{name: "machine.yaml claims, and no disk", own: true, before: volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "ext4"}, desired: file("/etc/a", ""), err: "no disk that is free matches"},
		{name: "machine.yaml claims, and a kubelet runs", own: true, used: true, before: volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "ext4"}, desired: file("/etc/a", ""), applied: true},
		{name: "asked for earlier, and not any more", before: volume.Record{Claim: volume.OfSize(gib), FileSystem: "ext4"}, desired: file("/etc/a", ""), applied: true},
		{name: "its disk has gone: the node goes on", before: volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "ext4", Made: true}, desired: sized, applied: true},
		{name: "what is no YAML", desired: file(agentFile, "\t{"), err: "config-v1.150.0.yaml:1: document: not YAML"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, engine := diskless(t), &applying{}
			d.own, d.InUse = test.own, func(context.Context) bool { return test.used }
			if test.before != (volume.Record{}) {
				if err := test.before.Write(d.Dir); err != nil {
					t.Fatal(err)
				}
			}
			_, err := claimingEngine{engine, d}.Apply(t.Context(), apply.Request{Desired: test.desired})
			if (engine.n == 1) != test.applied || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("applied %d times, %v", engine.n, err)
			}
		})
	}
}

func TestTheStatusSaysWhatIsWrongWithAVolume(t *testing.T) {
	d := diskless(t)
	if err := d.claims(t.Context(), machine.DataVolume{Disk: machine.Disk{Serial: "S1"}}, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.bring(t.Context()); !errors.Is(err, volume.ErrNone) {
		t.Fatal(err)
	}
	if got := problemOf(<-d.changed); got.Problem != "no data volume: no disk that is free matches; the machine has no disk at all" {
		t.Errorf("%+v", got)
	}
	got := problemOf(&status.Volume{Problem: "no data volume: why (claimed: serial \"S1\")\n  /dev/sdb: …\nhint: write it"})
	if got.Problem != `no data volume: why (claimed: serial "S1")` || !strings.HasPrefix(got.Hint, "loam disks") {
		t.Errorf("%+v", got)
	}
	if problemOf(nil) != nil || problemOf(&status.Volume{Device: "/dev/sdb"}) != nil {
		t.Error("a problem where there is none")
	}
}
