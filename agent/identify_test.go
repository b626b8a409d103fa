package agent

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/test/diskless"
	"github.com/loam-os/loam/test/files"
)

// identified is what machine.yaml has made of a node. Source is the type of
// what it follows, Claim the serial number of the disk that it claims.
type identified struct {
	Hostname, Source, Server, Contents, Repository, Claim, Error, Own string
	Warnings                                                          int
	Nameless, Reset                                                   bool
}

// built is the date of the kernel of the image.
var built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// TestNodesFollowOnlyAValidMachineYAML: and only if they have a name and are not
// being reset.
func TestNodesFollowOnlyAValidMachineYAML(t *testing.T) {
	const (
		head     = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"
		named    = head + "hostname: node-1\n"
		file     = "source: {file: {path: /srv/config.yaml}}\n"
		gardener = "source: {nodeAgent: {}}\n"
		claim    = "dataVolume: {serial: S1}\n"
		undone   = `{"at": "2026-01-02T03:04:05Z"}`
		done     = `{"at": "2026-01-02T03:04:05Z", "machine": "another", "done": true}`
		userData = gardener + "files:\n" +
			"- {path: /var/lib/gardener-node-agent/config-v1.1.0.yaml, content: \"" +
			"{apiVersion: nodeagent.config.gardener.cloud/v1alpha1, kind: NodeAgentConfiguration, apiServer: {server: 'https://user-data', caBundle: YQ==}, " +
			"controllers: {operatingSystemConfig: {secretName: s, kubernetesVersion: 1.36.3}}}\"}\n" +
			"- {path: /var/lib/gardener-node-agent/machine-name, content: machine-1}\n"
		nodes  = nodeAgentText
		record = "{apiVersion: loam.dev/v1alpha1, kind: Cluster, name: plant-7, kubernetes: 1.37.2}"
	)
	for _, test := range []struct {
		name, machine string
		// reset is the record of one, nodeAgent what Gardener gives a node; ""
		// if none.
		reset, nodeAgent string
		// cluster is the cluster record of the node, "" without one.
		cluster string
		want    identified
	}{
		{name: "none"},
		{
			name:    "a wrong one",
			machine: named + file + "sorce: {}\n",
			want:    identified{Error: "unknown field"},
		},
		{
			name:    "a file",
			machine: named + file,
			want:    identified{Hostname: "node-1", Source: "source.File"},
		},
		{
			name:    "contents",
			machine: head + "contents: {directory: {path: /srv}}\n",
			want:    identified{Source: "source.none", Contents: "/srv"},
		},
		{
			name: "a repository",
			machine: named + "upgrade: {repository: 'https://releases.example.org', " +
				`root: '{"signed": {"_type": "root"}, "signatures": []}'}`,
			want: identified{
				Hostname:   "node-1",
				Source:     "source.none",
				Repository: "https://releases.example.org",
			},
		},
		{
			name:    "a name that is still to come",
			machine: head + "hostnameFrom: dhcp\n" + file,
			want:    identified{Nameless: true, Warnings: 1},
		},
		{
			name:    "a reset under way",
			machine: named + file,
			reset:   undone,
			want:    identified{Hostname: "node-1", Reset: true},
		},
		{
			name:    "a reset that another one ends",
			machine: named + file,
			reset:   done,
			want:    identified{Hostname: "node-1", Source: "source.File"},
		},
		{
			name:    "a damaged record of a reset",
			machine: named + file,
			reset:   "{",
			want:    identified{Hostname: "node-1", Reset: true, Warnings: 1},
		},
		{
			name:      "a cluster",
			machine:   named + gardener + claim,
			nodeAgent: nodes,
			want: identified{
				Hostname: "node-1",
				Source:   "*cluster.Cluster",
				Server:   "https://api",
				Claim:    "S1",
			},
		},
		{
			name:    "a cluster of its own",
			machine: named + "cluster: {init: {name: plant-7}}\n",
			want:    identified{Hostname: "node-1", Source: "*local.Follower", Own: "plant-7"},
		},
		{
			name:    "the cluster that it has already",
			machine: named + "cluster: {init: {name: plant-7, pods: [10.1.0.0/16]}}\n",
			cluster: record,
			want:    identified{Hostname: "node-1", Source: "*local.Follower", Own: "plant-7"},
		},
		{
			name:    "another cluster than it has",
			machine: named + "cluster: {init: {name: plant-8}}\n",
			cluster: record,
			want: identified{
				Hostname: "node-1",
				Source:   "*local.Follower",
				Own:      "plant-7",
				Error:    "init plant-8: this node belongs to another cluster, plant-7",
			},
		},
		{
			name:    "a source, of a node that has a cluster",
			machine: named + gardener,
			cluster: record,
			want: identified{
				Hostname: "node-1",
				Source:   "*local.Follower",
				Own:      "plant-7",
				Error:    "source of machine.yaml: this node is the first of cluster plant-7",
			},
		},
		{
			name:    "nothing any more, of a node that has a cluster",
			cluster: record,
			want:    identified{Source: "*local.Follower", Own: "plant-7"},
		},
		{
			name:    "a cluster, and a reset under way",
			machine: named + "cluster: {init: {name: plant-7}}\n",
			cluster: record,
			reset:   undone,
			want:    identified{Hostname: "node-1", Reset: true},
		},
		{
			name: "Gardener's user data", machine: head + userData,
			want: identified{
				Hostname: "machine-1",
				Source:   "*cluster.Cluster",
				Server:   "https://user-data",
			},
		},
		{
			name: "Gardener's user data that says a name", machine: named + userData,
			want: identified{
				Hostname: "node-1",
				Source:   "*cluster.Cluster",
				Server:   "https://user-data",
			},
		},
		{
			name:    "Gardener's user data with a machine that nothing can be called after",
			machine: head + strings.Replace(userData, "machine-1", "Machine 1", 1),
			want: identified{Error: `the machine is called "Machine 1", which is not a host name: ` +
				"a name has letters and digits, with dashes and dots between them"},
		},
		{
			name:    "Gardener's user data, and a reset under way",
			machine: named + userData,
			reset:   undone,
			want:    identified{Hostname: "node-1", Reset: true},
		},
		{
			name:    "a cluster that nothing is known of, and a disk",
			machine: named + gardener + claim,
			want: identified{
				Hostname: "node-1",
				Source:   "source.none",
				Claim:    "S1",
				Error:    "find the node agent's configuration: /var/lib/gardener-node-agent has no config-<version>.yaml: file does not exist",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := unidentified(t)
			for name, text := range map[string]string{
				source.RunPath: test.machine, reset.RecordName: test.reset,
				"var/lib/gardener-node-agent/config-v1.1.0.yaml": test.nodeAgent, "var/lib/gardener-node-agent/cluster-ca.crt": test.nodeAgent,
				plane.RecordFile: test.cluster,
			} {
				if text != "" {
					files.Write(t, filepath.Join(n.Root, name), text)
				}
			}

			if test.cluster != "" {
				times := pki.Times{Built: built, Now: time.Now()}
				if err := n.planeStore().Keys.Create("plant-7", times); err != nil {
					t.Fatal(err)
				}
			}

			n.reset = n.newReset()
			n.identify(t.Context())
			if diff := cmp.Diff(test.want, n.identified(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if test.want.Own != "" && test.cluster != "" {
				n.checkCertificates(t)
			}
		})
	}
}

// checkCertificates: they are there before the agent is ready, when systemd starts
// the programs that read them.
func (n *testNode) checkCertificates(t *testing.T) {
	t.Helper()
	r, _, err := n.planeStore().Record()
	if err != nil {
		t.Fatal(err)
	}
	want := pki.Leaves(r.Names(n.status.Hostname))
	if have := n.planeStore().Certificates(r); len(have) != len(want) {
		t.Errorf("the node has %d certificates, want %d", len(have), len(want))
	}
}

// testNode is a node whose files a test looks at and changes.
type testNode struct{ *life }

// unidentified is a node without any disk or machine.yaml.
func unidentified(t *testing.T) *testNode {
	t.Helper()
	data := manager.New(diskless.Volume(t), zap.NewNop())
	etcdData := data.Volume
	etcdData.For = volume.Etcd
	if err := data.Dir.MkdirAll("var/lib/loam"); err != nil {
		t.Fatal(err)
	}
	state, err := data.Dir.Root().OpenRoot("var/lib/loam")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { state.Close() })

	return &testNode{&life{node: &node{
		Env: Env{
			Root:        data.Path,
			SetHostname: func(string) error { return nil },
			Setenv:      func(string, string) error { return nil },
			Now:         time.Now,
			Built:       func() (time.Time, error) { return built, nil },
			Fsync:       syncsIn(time.Millisecond),
			Uptime:      func() time.Duration { return time.Hour },
			BootID:      func() (string, error) { return "5f2c1a0e", nil },
			Addresses: func() ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
			},
			Log: zap.NewNop(),
		},
		root:     data.Dir.Root(),
		data:     data,
		etcdData: manager.New(etcdData, zap.NewNop()),
		engine:   apply.Open(apply.Config{State: durable.New(state, nil), Node: data.Dir}),
	}}}
}

// runsVersion has the node run that version of the system.
func (n *testNode) runsVersion(version string) {
	c := n.engine.Config()
	c.OSVersion = version
	n.engine = apply.Open(c)
}

func (n *testNode) identified(t *testing.T) identified {
	t.Helper()
	record, _, err := volume.Data.ReadRecord(n.root.FS())
	if err != nil {
		t.Fatal(err)
	}

	i := identified{
		Hostname:   n.status.Hostname,
		Contents:   n.status.Contents,
		Repository: n.status.Repository,
		Claim:      record.Claim.Serial,
		Own:        nameOf(n.status.OwnCluster),
		Warnings:   len(n.status.Warnings),
		Nameless:   n.nameless,
		Reset:      n.reset.Active(),
	}
	if n.source != nil {
		i.Source = fmt.Sprintf("%T", n.source)
	}
	if n.cluster != nil {
		i.Server = n.cluster.Config.Server
	}
	if n.status.Error != nil {
		i.Error = n.status.Error.Problem
	}

	return i
}
