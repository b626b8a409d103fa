package osc_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/osc"
)

// cluster is a document as a Gardener cluster sends it, with inline content.
const cluster = `
apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: pool-a, creationTimestamp: null}
spec:
  units:
  - name: kubelet.service
    command: start
    enable: true
    content: "[Service]\nExecStart=/opt/bin/kubelet\n"
    filePaths: [/opt/bin/kubelet, /etc/site/identity]
  - name: containerd.service
    filePaths: [/etc/site/ca.crt]
    dropIns:
    - {name: 20-limits.conf, content: "[Service]\nLimitNOFILE=1048576\n"}
  - name: legacy.service
    command: stop
    enable: false
    content: "[Service]\nExecStart=/bin/true\n"
  - name: gardener-node-agent.service
    enable: true
    content: "[Service]\nExecStart=/opt/bin/gardener-node-agent\n"
    filePaths: [/opt/bin/gardener-node-agent]
  files:
  - path: /opt/bin/kubelet
    permissions: 2541
    content: {inline: {encoding: b64, data: AAEC}}
  - path: /etc/site/ca.crt
    content: {inline: {encoding: "", data: "certificate\n"}}
  - path: /etc/site/identity
    hostName: nuc-01
    permissions: 420
    content: {inline: {data: "slot=1\n"}}
  - path: /etc/site/identity
    hostName: nuc-02
    permissions: 420
    content: {inline: {data: "slot=2\n"}}
  - path: /opt/bin/gardener-node-agent
    permissions: 493
    content: {imageRef: {image: "registry.example/agent:v1", filePathInImage: /agent}}
status:
  extensionUnits:
  - name: containerd.service
    command: restart
    filePaths: [/etc/extension.conf]
    dropIns:
    - {name: 10-site.conf, content: "[Service]\nEnvironment=SITE=x\n"}
  - {name: gardener-node-init.service, enable: false}
  extensionFiles:
  - path: /etc/extension.conf
    content: {inline: {data: "region=eu\n"}}
`

func TestMerge(t *testing.T) {
	decoded, err := osc.Decode("cluster", []byte(cluster))
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name, hostname string
		identity       []config.File
		kubeletPaths   []string
	}{
		{
			name:     "the first host",
			hostname: "NUC-01",
			identity: []config.File{
				{Path: "/etc/site/identity", Mode: 0o644, Content: config.Text("slot=1\n")},
			},
			kubeletPaths: []string{"/etc/site/identity", "/opt/bin/kubelet"},
		},
		{
			name:     "the second host",
			hostname: "nuc-02",
			identity: []config.File{
				{Path: "/etc/site/identity", Mode: 0o644, Content: config.Text("slot=2\n")},
			},
			kubeletPaths: []string{"/etc/site/identity", "/opt/bin/kubelet"},
		},
		{
			name:         "a host without files of its own",
			hostname:     "nuc-03",
			kubeletPaths: []string{"/opt/bin/kubelet"},
		},
		{name: "no host", kubeletPaths: []string{"/opt/bin/kubelet"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := osc.Merge(decoded, osc.Env{Hostname: test.hostname})
			if err != nil {
				t.Fatal(err)
			}

			want := config.Desired{
				Files: slices.Concat([]config.File{
					{Path: "/etc/extension.conf", Mode: 0o600, Content: config.Text("region=eu\n")},
					{Path: "/etc/site/ca.crt", Mode: 0o600, Content: config.Text("certificate\n")},
				}, test.identity, []config.File{
					{
						Path:    "/opt/bin/kubelet",
						Mode:    fs.ModeSetuid | 0o755,
						Content: config.Inline([]byte{0, 1, 2}),
					},
				}),
				Units: []config.Unit{
					{
						Name: "containerd.service",
						DropIns: []config.DropIn{
							{Name: "10-site.conf", Content: "[Service]\nEnvironment=SITE=x\n"},
							{Name: "20-limits.conf", Content: "[Service]\nLimitNOFILE=1048576\n"},
						},
						Command:   config.CommandRestart,
						FilePaths: []string{"/etc/extension.conf", "/etc/site/ca.crt"},
					},
					{
						Name:      "kubelet.service",
						Content:   new("[Service]\nExecStart=/opt/bin/kubelet\n"),
						Enable:    new(true),
						Command:   config.CommandStart,
						FilePaths: test.kubeletPaths,
					},
					{
						Name:    "legacy.service",
						Content: new("[Service]\nExecStart=/bin/true\n"),
						Enable:  new(false),
						Command: config.CommandStop,
					},
				},
				LeftOut: []config.LeftOut{
					{Name: "/opt/bin/gardener-node-agent", Why: "Loam is the node agent"},
					{Name: "gardener-node-agent.service", Why: "Loam is the node agent"},
					{Name: "gardener-node-init.service", Why: "Loam is the node agent"},
				},
			}

			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
		})
	}
}

// Status overrides Spec field by field, and keeps the fields it does not have.
func TestMergeOverride(t *testing.T) {
	decoded, err := osc.Decode(
		"c",
		[]byte(unit("name: a.service", `content: "[Unit]\n"`, "command: stop")+
			"status: {extensionUnits: [{name: a.service, content: \"[Service]\\n\", "+
			"enable: false}]}\n"),
	)
	if err != nil {
		t.Fatal(err)
	}

	got, err := osc.Merge(decoded, osc.Env{})
	if err != nil {
		t.Fatal(err)
	}

	want := []config.Unit{{
		Name:    "a.service",
		Content: new("[Service]\n"),
		Enable:  new(false),
		Command: config.CommandStop,
	}}
	if diff := cmp.Diff(want, got.Units); diff != "" {
		t.Errorf("Merge (-want +got):\n%s", diff)
	}
}

// Neither the order of a document nor fields that Loam ignores change the
// digest.
func TestMergeDigest(t *testing.T) {
	digest := func(text string) string {
		t.Helper()
		decoded, err := osc.Decode("c", []byte(text))
		if err != nil {
			t.Fatal(err)
		}

		desired, err := osc.Merge(decoded, osc.Env{})
		if err != nil {
			t.Fatal(err)
		}

		return desired.Digest()
	}

	one := digest(head + "  units: [{name: a.service}, {name: b.service}]\n")
	other := digest(head + "  units: [{name: b.service}, {name: gardener-node-agent.service}, " +
		"{name: a.service}]\n")
	if one != other {
		t.Error("another order has another digest")
	}

	if other := digest(head + "  units: [{name: a.service}, {name: b.service, " +
		"command: stop}]\n"); one == other {
		t.Error("another command has the same digest")
	}
}

// A value built in code, without a file it came from, is validated too.
func TestMergeValidates(t *testing.T) {
	_, err := osc.Merge(osc.OperatingSystemConfig{
		APIVersion: osc.APIVersion,
		Kind:       osc.Kind,
		Spec:       osc.Spec{Units: []osc.Unit{{}}},
	}, osc.Env{})
	want := "spec.units[0].name: empty; hint: name the unit, with its type: example.service"
	if err == nil || err.Error() != want {
		t.Errorf("Merge: error %v, want %s", err, want)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}

	for _, file := range files {
		if filepath.Base(file) == "machine.yaml" {
			continue // Another kind, tested in package machine.
		}

		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		decoded, err := osc.Decode(file, text)
		if err != nil {
			t.Error(err)
			continue
		}

		if _, err := osc.Merge(decoded, osc.Env{Hostname: "hello"}); err != nil {
			t.Error(err)
		}
	}
}

// FuzzDecode checks that everything a node accepts from a cluster can be
// applied: it merges, and every path, including those of unit files, is in the
// allowed trees, in shortest form and unique.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(cluster))
	f.Add([]byte(file("/etc/a/../b") + "    permissions: 0o4755\n"))
	f.Add([]byte(unit("name: a@b.timer", "enable: false", "content: |", "  [Timer]",
		"  OnBootSec=1")))
	f.Add([]byte(containerd("plugins: [{path: [a, b], values: {c: 1}}, {op: remove, path: [a]}]",
		"registries: [{upstream: 'a:1', hosts: [{url: 'http://b'}]}]")))
	f.Add([]byte(secret("a", "b")))
	f.Add([]byte(ssh))
	f.Add([]byte(kubelet(true, "kubeReserved: {cpu: 1, memory: x}")))
	f.Add([]byte(files("a", "", "nuc-01", "nuc-01")))
	f.Add([]byte(file("/etc//systemd/system/a.service") + "  units: [{name: a.service, content: " +
		"x, later: 1, dropIns: [{name: a, content: x}, {name: a, content: y}]}]\n"))

	if text, err := os.ReadFile("testdata/full.yaml"); err == nil {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		env := osc.Env{Hostname: "nuc-01", Containerd: cri.Base{Config: []byte("plugins.a.b = 1")}}
		decoded, err := osc.Decode("c", text)
		if !accepts(osc.Check(err, decoded, env)) {
			return
		}

		env.Contents = contents(osc.References(decoded, env))
		desired, err := osc.Merge(decoded, env)
		if err != nil {
			t.Fatalf("validates, but does not merge: %v", err)
		}

		last := ""
		once := map[string]bool{}
		add := func(path string) {
			checkFilePath(t, path)
			if once[path] {
				t.Errorf("%q twice", path)
			}
			once[path] = true
		}

		for _, file := range desired.Files {
			add(file.Path)
			if file.Path <= last {
				t.Errorf("%q after %q", file.Path, last)
			}
			last = file.Path
		}

		for _, unit := range desired.Units {
			if unit.Name == "" || strings.Contains(unit.Name, "/") {
				t.Errorf("unit %q", unit.Name)
			}
			path := "/etc/systemd/system/" + unit.Name
			if unit.Content != nil {
				add(path)
			}
			for _, dropIn := range unit.DropIns {
				add(path + ".d/" + dropIn.Name)
			}
		}
	})
}

func checkFilePath(t *testing.T, path string) {
	t.Helper()
	inTree := slices.ContainsFunc(
		[]string{"/etc/", "/opt/", "/var/", "/home/", "/srv/", "/root/", "/usr/local/"},
		func(tree string) bool { return strings.HasPrefix(path, tree) },
	)
	if !inTree || filepath.Clean(path) != path || strings.HasPrefix(path+"/", "/var/lib/loam/") ||
		strings.ContainsAny(path, "\x00\n") {
		t.Errorf("path %q", path)
	}
}
