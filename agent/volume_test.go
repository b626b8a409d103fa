package agent

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/test/diskless"
)

const gib = 1 << 30

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
		return config.Desired{Files: []config.File{{
			Path:    path,
			Content: config.Inline([]byte(text)),
		}}}
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
		{
			name:    "no volume",
			desired: file("/etc/a", "bootstrap: {kubeletDataVolumeSize: 1}"),
			applied: true,
		},
		{name: "a node agent without one", desired: file(agentFile, nodeAgentText), applied: true},
		{name: "a size, and no disk", desired: sized, err: "no disk that is free matches"},
		{
			name:    "machine.yaml claims, and no disk",
			own:     true,
			before:  volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "ext4"},
			desired: file("/etc/a", ""),
			err:     "no disk that is free matches",
		},
		{
			name:    "machine.yaml claims, and a kubelet runs",
			own:     true,
			used:    true,
			before:  volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "ext4"},
			desired: file("/etc/a", ""),
			applied: true,
		},
		{
			name:    "asked for earlier, and not any more",
			before:  volume.Record{Claim: volume.OfSize(gib), FileSystem: "ext4"},
			desired: file("/etc/a", ""),
			applied: true,
		},
		{
			name: "its disk has gone: the node goes on",
			before: volume.Record{
				Claim:      volume.Claim{Serial: "S1"},
				FileSystem: "ext4",
				Made:       true,
			},
			desired: sized,
			applied: true,
		},
		{
			name:    "what is no YAML",
			desired: file(agentFile, "\t{"),
			err:     "config-v1.150.0.yaml:1: document: not YAML",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, engine := manager.New(diskless.Volume(t), zap.NewNop()), &applying{}
			d.InUse = func(context.Context) bool { return test.used }
			if test.own {
				err := d.Configure(
					t.Context(), machine.Volume{DiskClaim: machine.DiskClaim{Serial: "S1"}}, 0,
				)
				if err != nil {
					t.Fatal(err)
				}
			}
			if test.before != (volume.Record{}) {
				if err := volume.Data.WriteRecord(d.Dir, test.before); err != nil {
					t.Fatal(err)
				}
			}
			called := 0
			_, err := claimingEngine{
				engine,
				d,
				func() { called++ },
			}.Apply(t.Context(), apply.Request{Desired: test.desired})
			if called != engine.n {
				t.Errorf("told %d times that a change follows", called)
			}
			if (engine.n == 1) != test.applied || (err != nil) != (test.err != "") || (err != nil &&
				!strings.Contains(err.Error(), test.err)) {
				t.Errorf("applied %d times, %v", engine.n, err)
			}
		})
	}
}

func TestTheStatusSaysWhatIsWrongWithAVolume(t *testing.T) {
	got := (&status.Volume{Problem: "no disk at all"}).Fault()
	if got.Problem != "no disk at all" || got.Hint != "" {
		t.Errorf("%+v", got)
	}
	gone := (&status.Volume{Problem: "gone", Hint: "plug it in"}).Fault()
	if gone.Problem != "gone" || gone.Hint != "plug it in" {
		t.Errorf("%+v", gone)
	}

	got = (&status.Volume{
		Problem: "no data volume: why (claimed: serial \"S1\")\n  /dev/sdb: …",
		Hint:    "write it",
	}).Fault()
	if got.Problem != `no data volume: why (claimed: serial "S1")` ||
		!strings.HasPrefix(got.Hint, "`loam disks`") {
		t.Errorf("%+v", got)
	}
	if (*status.Volume)(nil).Fault() != nil || (&status.Volume{Device: "/dev/sdb"}).Fault() != nil {
		t.Error("a problem where there is none")
	}
}
