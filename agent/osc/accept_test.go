package osc_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
)

// fromCluster returns what a node makes of a document from a cluster.
func fromCluster(text string, env osc.Env) (config.Desired, document.Errors, error) {
	decoded, wrong := osc.Decode("c", []byte(text))
	warnings, refusal := document.Lenient(osc.Check(wrong, decoded, env))
	if refusal != nil {
		return config.Desired{}, warnings, refusal
	}

	env.Contents = contents(osc.References(decoded, env))
	desired, err := osc.Merge(decoded, env)
	return desired, warnings, err
}

// places returns the lines and paths of errors.
func places(errs document.Errors) (all []string) {
	for _, e := range errs {
		all = append(all, fmt.Sprint(e.Line, " ", e.Path))
	}
	return all
}

// files returns a document with a file /etc/a for each of these texts and its
// host, "" for every host. The first is on line 5.
func files(hosts ...string) string {
	text := head + "  files:\n"
	for i, host := range hosts {
		if host != "" {
			host = ", hostName: " + host
		}
		text += fmt.Sprintf("  - {path: /etc/a, content: {inline: {data: '%d'}}%s}\n", i, host)
	}
	return text
}

// Each row is valid to Gardener's own validation, or a later Gardener may send
// it. The node reports the place and does what gardener-node-agent does.
func TestAcceptedFromACluster(t *testing.T) {
	unitFile := func(text string) *string { return &text }
	const service = `content: "[Service]\nExecStart=/bin/true\n"`
	tests := []struct {
		name, text string
		warnings   []string
		want       config.Desired
	}{
		{
			name: "fields of a later Gardener, everywhere",
			text: "later: 1\n" + head + "  later: {a: [b]}\n" +
				"  criConfig: {name: containerd, later: 1}\n  units:\n  - name: a.service\n" +
				"    later: 1\n" +
				"  files:\n  - path: /etc/a\n    later: [1]\n" +
				"    content: {later: 1, inline: {data: '0', later: 1}}\nstatus:\n  later: x\n",
			warnings: []string{
				"1 later", "5 spec.later", "6 spec.criConfig.later", "9 spec.units[0].later",
				"12 spec.files[0].later",
				"13 spec.files[0].content.later", "13 spec.files[0].content.inline.later",
				"15 status.later",
			},
			want: config.Desired{
				Files: []config.File{{Path: "/etc/a", Mode: 0o600, Content: config.Text("0")}},
				Units: []config.Unit{{Name: "a.service"}},
			},
		},
		{
			name: "a unit twice, the later counts",
			text: unit("name: a.service", `content: "[Unit]\n"`, "command: stop") +
				"  - {name: a.service, " + service + ", command: restart}\n",
			warnings: []string{"8 spec.units[1].content", "8 spec.units[1].command"},
			want: config.Desired{Units: []config.Unit{
				{
					Name:    "a.service",
					Content: unitFile("[Service]\nExecStart=/bin/true\n"),
					Command: config.CommandRestart,
				},
			}},
		},
		{
			name: "a drop-in in spec and in status",
			text: unit("name: a.service", `dropIns: [{name: a.conf, content: "[Unit]\n"}]`) +
				"status: {extensionUnits: [{name: a.service, dropIns: [{name: a.conf, content: " +
				"\"[Service]\\n\"}]}]}\n",
			warnings: []string{"7 status.extensionUnits[0].dropIns[0].name"},
			want: config.Desired{Units: []config.Unit{
				{
					Name:    "a.service",
					DropIns: []config.DropIn{{Name: "a.conf", Content: "[Service]\n"}},
				},
			}},
		},
		{
			name:     "a file twice",
			text:     files("", ""),
			warnings: []string{"6 spec.files[1].path"},
			want: config.Desired{Files: []config.File{
				{Path: "/etc/a", Mode: 0o600, Content: config.Text("1")},
			}},
		},
		{
			name:     "a file of a host twice",
			text:     files("other", "here", "here"),
			warnings: []string{"7 spec.files[2].path"},
			want: config.Desired{Files: []config.File{
				{Path: "/etc/a", Mode: 0o600, Content: config.Text("2")},
			}},
		},
		{
			name:     "a file for all and for a host",
			text:     files("", "other"),
			warnings: []string{"6 spec.files[1].path"},
			want: config.Desired{Files: []config.File{
				{Path: "/etc/a", Mode: 0o600, Content: config.Text("0")},
			}},
		},
		{
			name: "a boolean of YAML 1.1, a merge key and a number with a point",
			text: head + "  units: [&a {name: a.service, enable: yes}, {<<: *a, name: b.service}]\n" +
				"  files: [{path: /etc/a, permissions: 420.0, content: {inline: {data: 5}}}]\n",
			warnings: []string{
				"4 spec.units[0].enable", "4 spec.units[1].enable", "4 spec.units[1]",
				"5 spec.files[0].permissions", "5 spec.files[0].content.inline.data",
			},
			want: config.Desired{
				Files: []config.File{{Path: "/etc/a", Mode: 0o644, Content: config.Text("5")}},
				Units: []config.Unit{
					{Name: "a.service", Enable: new(true)}, {Name: "b.service", Enable: new(true)},
				},
			},
		},
		{
			name: "files in the place of a unit's",
			text: fileOf("/etc/systemd/system/a.service", "# x") +
				"  - {path: /etc/systemd/system/a.service.d/a.conf, content: {inline: " +
				"{data: '# x'}}}\n" +
				"  units: [{name: a.service, " + service + ", dropIns: [{name: a.conf, content: " +
				"\"[Unit]\\n\"}]}]\n",
			warnings: []string{"5 spec.files[0].path", "7 spec.files[1].path"},
			want: config.Desired{Units: []config.Unit{
				{
					Name:    "a.service",
					Content: unitFile("[Service]\nExecStart=/bin/true\n"),
					DropIns: []config.DropIn{{Name: "a.conf", Content: "[Unit]\n"}},
				},
			}},
		},
		{
			name: "a drop-in of criConfig in spec",
			text: head + "  criConfig: {name: containerd, cgroupDriver: systemd}\n" +
				"  units: [{name: containerd.service, dropIns: [{name: 30-env_config.conf, " +
				"content: \"[Unit]\\n\"}]}]\n",
			warnings: []string{"5 spec.units[0].dropIns[0].name"},
			want: config.Desired{Units: []config.Unit{{
				Name:      cri.Unit,
				DropIns:   []config.DropIn{{Name: cri.DropInName, Content: cri.DropIn}},
				FilePaths: []string{cri.ConfigFile},
			}}},
		},
		{
			name: "a drop-in of criConfig in status",
			text: head + "  criConfig: {name: containerd, cgroupDriver: systemd}\n" +
				"status: {extensionUnits: [{name: containerd.service, dropIns: [{name: " +
				"30-env_config.conf, content: \"[Unit]\\n\"}]}]}\n",
			warnings: []string{"5 status.extensionUnits[0].dropIns[0].name"},
			want: config.Desired{Units: []config.Unit{{
				Name:      cri.Unit,
				DropIns:   []config.DropIn{{Name: cri.DropInName, Content: "[Unit]\n"}},
				FilePaths: []string{cri.ConfigFile},
			}}},
		},
		{
			name: "paths in another spelling",
			text: file("/etc//a/./b") + "    permissions: 420\n" +
				"  - {path: /etc/c, content: {imageRef: {image: a.b/c:v1, filePathInImage: " +
				"bin/c/}}}\n  units: [{name: a.service, filePaths: [/etc/a//b]}]\n",
			warnings: []string{
				"5 spec.files[0].path", "8 spec.files[1].content.imageRef.filePathInImage",
				"9 spec.units[0].filePaths[0]",
			},
			want: config.Desired{
				Files: []config.File{
					{Path: "/etc/a/b", Mode: 0o644, Content: config.Text("x")},
					{
						Path:    "/etc/c",
						Mode:    0o600,
						Content: config.Text("/bin/c of the image a.b/c:v1"),
					},
				},
				Units: []config.Unit{{Name: "a.service", FilePaths: []string{"/etc/a/b"}}},
			},
		},
		{
			name:     "a mode with the type of the file",
			text:     file("/etc/a") + "    permissions: 0o100644\n",
			warnings: []string{"7 spec.files[0].permissions"},
			want: config.Desired{Files: []config.File{
				{Path: "/etc/a", Mode: 0o644, Content: config.Text("x")},
			}},
		},
		{
			name:     "a file without data",
			text:     content("inline: {encoding: b64}"),
			warnings: []string{"6 spec.files[0].content.inline.data"},
			want: config.Desired{Files: []config.File{
				{Path: "/etc/a", Mode: 0o600, Content: config.Text("")},
			}},
		},
		{
			name:     "an unknown command",
			text:     unit("name: a.service", "command: reload"),
			warnings: []string{"6 spec.units[0].command"},
			want:     config.Desired{Units: []config.Unit{{Name: "a.service"}}},
		},
		{
			name: "an unknown command over one",
			text: unit("name: a.service", "command: stop") + "status: {extensionUnits: " +
				"[{name: a.service, command: Stop}]}\n",
			warnings: []string{"7 status.extensionUnits[0].command"},
			want:     config.Desired{Units: []config.Unit{{Name: "a.service"}}},
		},
		{
			name:     "a template to start",
			text:     unit("name: a@.service", "command: restart"),
			warnings: []string{"6 spec.units[0].command"},
			want:     config.Desired{Units: []config.Unit{{Name: "a@.service"}}},
		},
		{
			name:     "a unit that is masked",
			text:     unit("name: a.service", `content: ""`, "command: start"),
			warnings: []string{"6 spec.units[0].content"},
			want: config.Desired{Units: []config.Unit{
				{Name: "a.service", Content: unitFile(""), Command: config.CommandStop},
			}},
		},
		{
			name:     "a unit file that systemd reads in part",
			text:     unit("name: a.service", `content: "[Later]\nnothing\n"`),
			warnings: []string{"6 spec.units[0].content", "6 spec.units[0].content"},
			want: config.Desired{Units: []config.Unit{
				{Name: "a.service", Content: unitFile("[Later]\nnothing\n")},
			}},
		},
		{
			name:     "an unknown purpose",
			text:     head + "  purpose: later\n",
			warnings: []string{"4 spec.purpose"},
		},
		{
			name: "null everywhere",
			text: head + "  units:\n  files:\n  criConfig:\n" +
				"  inPlaceUpdates:\nstatus:\nmetadata:\n",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, warnings, err := fromCluster(tt.text, osc.Env{Hostname: "here"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.warnings, places(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s\n%v", diff, warnings)
			}

			got.Files = without(got.Files, cri.ConfigFile)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
		})
	}
}

// without returns files except the one at path, or nil if none is left.
func without(files []config.File, path string) (others []config.File) {
	for _, f := range files {
		if f.Path != path {
			others = append(others, f)
		}
	}
	return others
}

// A mirror is one table in TOML, which cannot be defined twice: the first one
// counts.
func TestMirrorTwice(t *testing.T) {
	desired, warnings, err := fromCluster(
		mirror("url: 'http://a', capabilities: [pull]}, {url: 'http://b'}, {url: 'http://a'"),
		osc.Env{},
	)
	if err != nil {
		t.Fatal(err)
	}

	diff := cmp.Diff([]string{"10 spec.criConfig.containerd.registries[0].hosts[2].url"},
		places(warnings))
	if diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}

	text := read(t, desired.Files[0].Content)
	if strings.Count(text, `"http://a"`) != 1 || !strings.Contains(text, "[host.\"http://a\"]\n"+
		"capabilities = [\"pull\"]\n") {
		t.Errorf("hosts.toml is\n%s", text)
	}
}

// A warning hides no error, neither of the same field nor of the document.
func TestWarningsHideNothing(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{
			name: "an error of the field that is given twice",
			text: unit("name: a.service", "name: b"),
			want: []string{"6 spec.units[0].name"},
		},
		{name: "no header", text: "spec: {}\nlater: 1\n", want: []string{"1 apiVersion", "1 kind"}},
		{
			name: "another header",
			text: "apiVersion: v1\nkind: Pod\n" +
				"later: 1\n",
			want: []string{"1 apiVersion", "2 kind"},
		},
		{
			name: "errors after many warnings",
			text: head + strings.Repeat("  later: 1\n", 2000) + "  files: 1\n",
			want: []string{"2004 spec.files"},
		},
		{
			name: "a file that cannot be",
			text: file("/usr/bin/a") + "    later: 1\n",
			want: []string{"5 spec.files[0].path"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := fromCluster(test.text, osc.Env{})
			refused, _ := err.(document.Errors)
			if diff := cmp.Diff(test.want, places(refused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// ssh has the units and files of Gardener's components sshd-ensurer and
// gardener-user.
const ssh = head + `  units:
  - {name: sshd-ensurer.service, command: start, content: "[Service]\nExecStart=/var/lib/sshd-ensurer/run.sh\n", filePaths: [/var/lib/sshd-ensurer/run.sh]}
  - {name: a.service, filePaths: [/var/lib/gardener-user/run.sh]}
  files:
  - {path: /var/lib/sshd-ensurer/run.sh, permissions: 493, content: {inline: {data: x}}}
  - {path: /var/lib/gardener-user/run.sh, permissions: 493, content: {inline: {data: x}}}
`

// A node has no SSH server. Units that turn access on are left out with a note,
// units that turn it off without one.
func TestSSHAccess(t *testing.T) {
	const users = "status:\n  extensionUnits:\n  - {name: gardener-user.service, enable: true}\n" +
		"  - {name: gardener-user.path, enable: true}\n" +
		"  extensionFiles:\n" +
		"  - {path: /var/lib/gardener-user-authorized-keys, content: {inline: {encoding: b64, " +
		"data: YQ==}}}\n"

	for _, test := range []struct {
		name, text string
		want       []string
		notes      []string
	}{
		{
			name: "off",
			text: ssh,
			want: []string{
				"/var/lib/gardener-user/run.sh", "/var/lib/sshd-ensurer/run.sh",
				"sshd-ensurer.service",
			},
		},
		{
			name: "on",
			text: ssh + users,
			want: []string{
				"/var/lib/gardener-user-authorized-keys", "/var/lib/gardener-user/run.sh",
				"/var/lib/sshd-ensurer/run.sh",
				"gardener-user.path", "gardener-user.service", "sshd-ensurer.service",
			},
			notes: []string{"NoSSHAccess SSH access: this image has no SSH server, " +
				"so it goes without gardener-user.path, gardener-user.service, " +
				"sshd-ensurer.service"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			desired, warnings, err := fromCluster(test.text, osc.Env{})
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			if diff := cmp.Diff(test.want, leftOut(desired)); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}

			var notes []string
			for _, n := range desired.Notes {
				notes = append(notes, n.Reason+" "+n.String())
			}
			if diff := cmp.Diff(test.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}

			diff := cmp.Diff([]config.Unit{{Name: "a.service", FilePaths: []string{}}},
				desired.Units)
			if diff != "" || len(desired.Files) > 0 {
				t.Errorf("%d files, units (-want +got):\n%s", len(desired.Files), diff)
			}
		})
	}
}

// kubelet returns a document with these lines of kubelet configuration, the
// first on line 9, and optionally with inPlaceUpdates.
func kubelet(inPlace bool, lines ...string) string {
	const indent = "\n          "
	text := head + "  files:\n  - path: /var/lib/kubelet/config/kubelet\n    content:\n" +
		"      inline:\n        data: |" +
		indent + strings.Join(lines, indent) + "\n"
	if inPlace {
		text += "  inPlaceUpdates: {operatingSystemVersion: 1.0.0, kubelet: 1.35.0}\n"
	}
	return text
}

func TestKubeletQuantities(t *testing.T) {
	const hint = " is not a quantity; hint: write a number and a unit, such as 80m or 1Gi"
	const at = ": spec.files[0].content.inline.data: line "

	for _, test := range []struct {
		name              string
		inPlace           bool
		lines             []string
		warnings, refusal string
	}{
		{
			name:    "right",
			inPlace: true,
			lines: []string{
				"apiVersion: kubelet.config.k8s.io/v1beta1", "maxPods: 110", "kubeReserved: " +
					"{cpu: 80m, memory: 1Gi, pid: 20k}",
				"evictionHard: {memory.available: 5%, nodefs.available: 1.5Gi}",
			},
		},
		{
			name:    "kubeReserved in an update in place",
			inPlace: true,
			lines:   []string{"kubeReserved:", "  memory: 1Gi", "  cpu: 80 m"},
			refusal: "c:11" + at + `3: the kubelet's kubeReserved.cpu: "80 m"` + hint,
		},
		{
			name:     "kubeReserved elsewhere",
			lines:    []string{"kubeReserved:", "  cpu: ''"},
			warnings: "c:10" + at + "2: the kubelet's kubeReserved.cpu: an empty value" + hint,
		},
		{
			name:    "a number for a quantity",
			inPlace: true,
			lines:   []string{"kubeReserved:", "  cpu: 1"},
			refusal: "c:10" + at +
				`2: the kubelet's kubeReserved.cpu: is the number "1", want a string; hint: put it in quotes`,
		},
		{
			name:    "what else the kubelet does not take",
			inPlace: true,
			lines: []string{
				"systemReserved: {cpu: x}", "evictionHard:", "  memory.available: 5 %",
			},
			warnings: "c:9" + at + `1: the kubelet's systemReserved.cpu: "x"` + hint + "\n" +
				"c:11" + at + `3: the kubelet's evictionHard["memory.available"]: "5 %"` + hint,
		},
		{
			name:    "no YAML",
			inPlace: true,
			lines:   []string{"kubeReserved: ["},
			refusal: "c:9" + at + "1: the kubelet's configuration: not YAML: " +
				"did not find expected node content; hint: indent with spaces, " +
				"and quote a value that has a colon or begins with a special character",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := fromCluster(kubelet(test.inPlace, test.lines...), osc.Env{})
			if diff := cmp.Diff(test.warnings, warnings.Error()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.refusal, message(err)); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

// A document for a machine's first boot, as Gardener writes it into the user
// data.
func TestProvision(t *testing.T) {
	text, err := os.ReadFile("testdata/provision.yaml")
	if err != nil {
		t.Fatal(err)
	}

	desired, warnings, err := fromCluster(string(text), osc.Env{Hostname: "here"})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}

	var paths []string
	for _, f := range desired.Files {
		paths = append(paths, f.Path)
	}

	want := []string{
		"/var/lib/gardener-node-agent/credentials/bootstrap-token",
		"/var/lib/gardener-node-agent/init.sh", "/var/lib/gardener-node-agent/machine-name",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff([]string{"gardener-node-init.service"}, leftOut(desired)); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}
