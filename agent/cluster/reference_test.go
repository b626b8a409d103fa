package cluster

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cluster/credentials"
)

const nodeAgentText = `apiVersion: nodeagent.config.gardener.cloud/v1alpha1
kind: NodeAgentConfiguration
clientConnection: {kubeconfig: /var/lib/gardener-node-agent/credentials/kubeconfig}
logLevel: info
someday: {a: new field}
apiServer: {server: "https://api.site.local", caFile: /var/lib/gardener-node-agent/cluster-ca.crt}
controllers:
  operatingSystemConfig: {secretName: gardener-node-agent-pool-0123456789abcdef, kubernetesVersion: 1.36.3, syncPeriod: 10m}
  token: {syncPeriod: 12h, syncConfigs: [{secretName: gardener-valitail, path: /var/lib/valitail/auth-token}]}
`

func TestReadNodeAgent(t *testing.T) {
	const dir = "var/lib/gardener-node-agent/"
	node := fstest.MapFS{
		dir + "config-v1.149.0.yaml": {Data: []byte("kind: Old"), ModTime: time.Unix(1, 0)},
		dir + "config-v1.150.0.yaml": {Data: []byte(nodeAgentText), ModTime: time.Unix(2, 0)},
		dir + "cluster-ca.crt":       {Data: []byte("CA")},
		dir + "machine-name":         {Data: []byte("machine-1\nmore\n")},
		dir + "zone":                 {Data: []byte("zone-1\n")},
	}

	got, err := ReadNodeAgent(node, credentials.Directory)
	want := Config{
		Gardener:          true,
		Server:            "https://api.site.local",
		CA:                []byte("CA"),
		SecretName:        "gardener-node-agent-pool-0123456789abcdef",
		Machine:           "machine-1",
		Zone:              "zone-1",
		KubernetesVersion: "1.36.3",
		Tokens:            []Token{{"gardener-valitail", "/var/lib/valitail/auth-token"}},
		Warnings: []string{"/var/lib/gardener-node-agent/config-v1.150.0.yaml:5: someday: " +
			"unknown field; hint: known here: apiVersion, kind, " +
			"clientConnection, logLevel, logFormat, server, debugging, featureGates, apiServer, " +
			"bootstrap, controllers"},
	}

	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	delete(node, dir+"zone")
	if got, err := ReadNodeAgent(node, credentials.Directory); err != nil || got.Zone != "" {
		t.Errorf("without a zone: %q %v", got.Zone, err)
	}

	node[dir+"zone"] = &fstest.MapFile{Data: []byte("eu west\n")}
	node[dir+"config-v1.150.0.yaml"] = &fstest.MapFile{
		Data:    []byte(strings.Replace(nodeAgentText, "1.36.3", "1.36+x", 1)),
		ModTime: time.Unix(2, 0),
	}

	want.Zone = ""
	want.KubernetesVersion = ""
	want.Warnings = []string{
		want.Warnings[0],
		`/var/lib/gardener-node-agent/zone: the zone "eu west" is not a valid label value: the Node gets none`,
		`/var/lib/gardener-node-agent/config-v1.150.0.yaml: the Kubernetes version "1.36+x" is not a valid label value: the Node gets none`,
	}

	got, err = ReadNodeAgent(node, credentials.Directory)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("invalid label values: %v (-want +got):\n%s", err, diff)
	}

	for _, tt := range []struct{ name, file, text, want string }{
		{"no CA", "cluster-ca.crt", "", "read the CA of the API server"},
		{"another kind", "config-v1.150.0.yaml", "apiVersion: v1\nkind: Secret\n",
			`/var/lib/gardener-node-agent/config-v1.150.0.yaml:2: kind: "Secret" is not known here; hint: write kind: NodeAgentConfiguration`},
		{
			"no Secret",
			"config-v1.150.0.yaml",
			strings.Replace(nodeAgentText, "secretName: gardener-node-agent-pool-0123456789abcdef",
				"secretName: ", 1),
			"/var/lib/gardener-node-agent/config-v1.150.0.yaml:8: " +
				"controllers.operatingSystemConfig.secretName: empty",
		},
		{
			"no YAML",
			"config-v1.150.0.yaml",
			"\t",
			"/var/lib/gardener-node-agent/config-v1.150.0.yaml:1: document: not YAML",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			broken := fstest.MapFS{}
			for name, file := range node {
				broken[name] = file
			}

			broken[dir+tt.file] = &fstest.MapFile{Data: []byte(tt.text), ModTime: time.Unix(3, 0)}
			if tt.text == "" {
				delete(broken, dir+tt.file)
			}

			_, err := ReadNodeAgent(broken, credentials.Directory)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}

	if _, err := ReadNodeAgent(fstest.MapFS{}, credentials.Directory); err == nil ||
		!strings.Contains(err.Error(), "no config-<version>.yaml") {
		t.Errorf("nothing there: %v", err)
	}
}

// File times do not decide: the clock may have been wrong, and copies have
// other times.
func TestNewestConfigurationHasTheNewestVersion(t *testing.T) {
	for _, tt := range []struct {
		name string
		// names are in the order of their file times.
		names []string
		want  string
	}{
		{"one", []string{"config-v1.149.0.yaml"}, "config-v1.149.0.yaml"},
		{
			"the newer one was written last",
			[]string{"config-v1.149.0.yaml", "config-v1.150.0.yaml"},
			"config-v1.150.0.yaml",
		},
		{
			"the newer one was written first",
			[]string{"config-v1.150.0.yaml", "config-v1.149.0.yaml"},
			"config-v1.150.0.yaml",
		},
		{
			"numbers count as numbers",
			[]string{"config-v1.100.0.yaml", "config-v1.99.1.yaml"},
			"config-v1.100.0.yaml",
		},
		{
			"a release is newer than its pre-releases",
			[]string{"config-v1.150.0.yaml", "config-v1.150.0-dev.yaml"},
			"config-v1.150.0.yaml",
		},
		{
			"with and without a v",
			[]string{"config-1.150.0.yaml", "config-v1.149.0.yaml"},
			"config-1.150.0.yaml",
		},
		{
			"an invalid version is the oldest",
			[]string{"config-v1.149.0.yaml", "config-v0.0.0-master+$Format:%H$.yaml"},
			"config-v1.149.0.yaml",
		},
		{
			"two builds of one version",
			[]string{"config-v1.150.0+b.yaml", "config-v1.150.0+a.yaml"},
			"config-v1.150.0+b.yaml",
		},
		{
			"two invalid versions",
			[]string{"config-new.yaml", "config-master.yaml"},
			"config-new.yaml",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := fstest.MapFS{}
			for i, name := range tt.names {
				node["dir/"+name] = &fstest.MapFile{ModTime: time.Unix(int64(i), 0)}
			}
			if got, err := newest(node, "dir"); got != "dir/"+tt.want || err != nil {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}
