package osc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/osc"
)

// containerd returns a document with these fields in criConfig.containerd; the
// first is on line 8.
func containerd(fields ...string) string {
	return head + "  criConfig:\n    name: containerd\n    containerd:\n" +
		"      sandboxImage: pause:3.10\n      " + strings.Join(fields, "\n      ") + "\n"
}

// mirror returns a document with one registry and one host that has these
// fields, on line 10.
func mirror(fields string) string {
	return containerd("registries:", "- upstream: a.b", "  hosts: [{"+fields+"}]")
}

// Each row is refused with these errors. The rows leave out the line and,
// except for the first, "spec.criConfig.containerd.". accepted is as in
// TestBadInput.
func TestBadCRIConfig(t *testing.T) {
	const (
		url      = "; hint: begin it with https:// or http:// and a host"
		upstream = "; hint: write HOST or HOST:PORT in lower case, without https://"
		imageRef = "; hint: write HOST[:PORT]/PATH[:TAG][@sha256:DIGEST], " +
			"host and path in lower case"
		cert = "; hint: write it with / at its beginning, or relative to the directory of " +
			"the registry, without . and .."
		misfit = "; hint: remove it first, with op: remove, or write another path"
	)

	base := cri.Base{Config: []byte("plugins.a.b = 1")}
	for _, test := range []struct {
		name, text, want string
		accepted         bool
	}{
		{
			name: "another runtime",
			text: head + "  criConfig: {name: docker}\n",
			want: `spec.criConfig.name: "docker" is not supported; hint: write containerd`,
		},
		{
			name: "no runtime",
			text: head + "  criConfig: {cgroupDriver: systemd}\n",
			want: "spec.criConfig.name: an empty value is not supported; hint: write containerd",
		},
		{
			name: "an unknown driver",
			text: head + "  criConfig: {name: containerd, cgroupDriver: Systemd}\n",
			want: `spec.criConfig.cgroupDriver: "Systemd" is unknown; hint: write systemd or cgroupfs`,
		},
		{
			name:     "the purpose provision",
			accepted: true,
			text:     containerd() + "  purpose: provision\n",
			want: "spec.criConfig.containerd: is only for the purpose reconcile; hint: " +
				"leave it out, or write purpose: reconcile",
		},
		{
			name:     "no sandbox image",
			accepted: true,
			text:     head + "  criConfig: {name: containerd, containerd: {}}\n",
			want: "spec.criConfig.containerd.sandboxImage: empty; hint: name the image, " +
				"such as registry.example/hyperkube@sha256:DIGEST",
		},
		{
			name:     "a sandbox image in upper case",
			accepted: true,
			text:     strings.Replace(containerd(), "pause", "Pause", 1),
			want:     `spec.criConfig.containerd.sandboxImage: "Pause:3.10" is not a reference to an image` + imageRef,
		},

		{
			name: "no upstream",
			text: containerd("registries: [{}]"),
			want: "registries[0].upstream: empty; hint: write the registry's host, " +
				"such as docker.io, or _default",
		},
		{
			name: "an upstream that is a URL",
			text: containerd("registries: [{upstream: 'https://a.b'}]"),
			want: `registries[0].upstream: "https://a.b" has no port after its colon; hint: write a number up to 65535`,
		},
		{
			name: "an upstream with a path",
			text: containerd("registries: [{upstream: a.b/c}]"),
			want: `registries[0].upstream: "a.b/c" is not the host of a registry` + upstream,
		},
		{
			name: "an upstream that leaves its directory",
			text: containerd("registries: [{upstream: ..}]"),
			want: `registries[0].upstream: ".." is not the host of a registry` + upstream,
		},
		{
			name: "an upstream with a broken address",
			text: containerd("registries: [{upstream: '[::g]:1'}]"),
			want: `registries[0].upstream: "[::g]:1" is not the host of a registry` + upstream,
		},
		{
			name: "an upstream with a large port",
			text: containerd("registries: [{upstream: 'a:65536'}]"),
			want: `registries[0].upstream: "a:65536" has no port after its colon; hint: write a number up to 65535`,
		},
		{
			name: "an upstream twice",
			text: containerd("registries: [{upstream: a}, {upstream: b}, {upstream: b}]"),
			want: `registries[2].upstream: "b" given twice, first at spec.criConfig.containerd.registries[1].upstream; hint: keep one of them`,
		},
		{
			name: "a server without a scheme",
			text: containerd("registries: [{upstream: a, server: a.b}]"),
			want: `registries[0].server: "a.b" is not the URL of a registry` + url,
		},
		{
			name: "a host without a URL",
			text: mirror(""),
			want: "registries[0].hosts[0].url: empty; hint: write a URL, " +
				"such as https://mirror.example:5000",
		},
		{
			name:     "a host of another scheme",
			accepted: true,
			text:     mirror("url: 'ftp://a'"),
			want:     `registries[0].hosts[0].url: "ftp://a" is not the URL of a registry` + url,
		},
		{
			name:     "a mirror with a port that is none",
			accepted: true,
			text:     mirror("url: 'https://a:70000'"),
			want:     `registries[0].hosts[0].url: "https://a:70000" has no port after its colon; hint: write a number up to 65535`,
		},
		{
			name:     "a host with a password",
			accepted: true,
			text:     mirror("url: 'https://a:b@c'"),
			want:     `registries[0].hosts[0].url: "https://…@c" has a user, a query or a fragment; hint: leave only scheme, host, port and path`,
		},
		{
			name:     "a host twice",
			accepted: true,
			text:     mirror("url: 'http://a'}, {url: 'http://a'"),
			want:     `registries[0].hosts[1].url: "http://a" given twice, first at spec.criConfig.containerd.registries[0].hosts[0].url; hint: keep one of them`,
		},
		{
			name: "an unknown capability",
			text: mirror("url: 'http://a', capabilities: [read]"),
			want: `registries[0].hosts[0].capabilities[0]: "read" is unknown; hint: write pull, resolve or push`,
		},
		{
			name:     "a capability twice",
			accepted: true,
			text:     mirror("url: 'http://a', capabilities: [pull, pull]"),
			want:     `registries[0].hosts[0].capabilities[1]: "pull" given twice, first at spec.criConfig.containerd.registries[0].hosts[0].capabilities[0]; hint: keep one of them`,
		},
		{
			name:     "a certificate that leaves its directory",
			accepted: true,
			text:     mirror("url: 'http://a', caCerts: [../x]"),
			want:     `registries[0].hosts[0].caCerts[0]: "../x" is not the path of a file` + cert,
		},
		{
			name:     "a certificate in a long form",
			accepted: true,
			text:     mirror("url: 'http://a', caCerts: [/etc//x]"),
			want: `registries[0].hosts[0].caCerts[0]: "/etc//x" is not the path of a file` +
				cert,
		},
		{
			name:     "no certificate",
			accepted: true,
			text:     mirror("url: 'http://a', caCerts: ['']"),
			want: "registries[0].hosts[0].caCerts[0]: empty; hint: " +
				"write the path of a file with certificates",
		},

		{
			name: "an unknown op",
			text: containerd("plugins: [{op: Add, path: [x], values: {}}]"),
			want: `plugins[0].op: "Add" is unknown; hint: write add or remove`,
		},
		{
			name: "no path",
			text: containerd("plugins: [{values: {}}]"),
			want: "plugins[0].path: empty; hint: list the names of the tables below plugins, " +
				"such as io.containerd.gc.v1.scheduler",
		},
		{
			name:     "an empty name in a path",
			accepted: true,
			text:     containerd("plugins: [{path: [x, ''], values: {}}]"),
			want:     "plugins[0].path[1]: empty; hint: write the name of a table",
		},
		{
			name:     "values to remove",
			accepted: true,
			text:     containerd("plugins: [{op: remove, path: [x], values: {k: 1}}]"),
			want: "plugins[0].values: there is nothing to remove from values; hint: " +
				"leave values out, or write op: add",
		},
		{
			name:     "nothing to add",
			accepted: true,
			text:     containerd("plugins: [{op: add, path: [x]}]"),
			want:     "plugins[0].values: empty; hint: write what to add, {} for an empty table",
		},
		{
			name: "null in values",
			text: containerd("plugins: [{path: [x], values: {k: [{z: null}]}}]"),
			want: "plugins[0].values: holds null in a list or an infinite number, " +
				"which containerd's configuration cannot; hint: leave it out",
		},
		{
			name: "no number in values",
			text: containerd("plugins: [{path: [x], values: {k: .nan}}]"),
			want: `plugins[0].values.k: is the number ".nan", want a value that JSON knows; ` +
				"hint: put it in quotes",
		},
		{
			name:     "a path through a value of the image",
			accepted: true,
			text: containerd("plugins: [{path: [x], values: {}}, {path: [a, b], " +
				"values: {c: 1}}]"),
			want: "plugins[1].path: plugins.a.b is a value, not a table" + misfit,
		},

		{
			name:     "a file that criConfig writes",
			accepted: true,
			text: containerd() + "  files: [{path: /etc/containerd/config.toml, content: " +
				"{inline: {data: x}}}]\n",
			want: `spec.files[0].path: "/etc/containerd/config.toml" given twice, first at spec.criConfig; hint: leave the file out: criConfig writes it`,
		},
		{
			name:     "a file that criConfig writes, for one host",
			accepted: true,
			text: containerd("registries: [{upstream: a}]") + "  files: [{path: " +
				"/etc/containerd/certs.d/a/hosts.toml, hostName: b, content: {inline: " +
				"{data: x}}}]\n",
			want: `spec.files[0].path: "/etc/containerd/certs.d/a/hosts.toml" given twice, first at spec.criConfig.containerd.registries[0]; hint: leave the file out: criConfig writes it`,
		},
		{
			name: "a file in the place of a directory of criConfig",
			text: containerd("registries: [{upstream: a}]") + "  files: [{path: " +
				"/etc/containerd/certs.d, content: {inline: {data: x}}}]\n",
			want: `registries[0]: "/etc/containerd/certs.d/a/hosts.toml" is below a file, spec.files[0].path; hint: move one of them`,
		},
		{
			name:     "the drop-in that criConfig writes",
			accepted: true,
			text: containerd() + "  units: [{name: containerd.service, dropIns: [{name: " +
				"30-env_config.conf, content: \"[Service]\"}]}]\n",
			want: `spec.units[0].dropIns[0].name: "30-env_config.conf" given twice, first at spec.criConfig; hint: choose another name: criConfig writes it`,
		},
		{
			name: "all at once",
			text: containerd("registries: [{upstream: A}]",
				"plugins: [{op: x, path: [y], values: 1}]"),
			want: `registries[0].upstream: "A" is not the host of a registry` + upstream + "\n" +
				`plugins[0].op: "x" is unknown; hint: write add or remove`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := mergeText(test.text, osc.Env{Containerd: base})
			var got []string
			for line := range strings.SplitSeq(message(err), "\n") {
				_, line, _ = strings.Cut(line, ": ")
				got = append(got, line)
			}

			var want []string
			for line := range strings.SplitSeq(test.want, "\n") {
				if !strings.HasPrefix(line, "spec.") {
					line = "spec.criConfig.containerd." + line
				}
				want = append(want, line)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}

			if got := accepts(err); got != test.accepted {
				t.Errorf("accepted from a cluster: %v, want %v", got, test.accepted)
			}
		})
	}
}

func TestGoodCRIConfig(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{name: "a purpose", text: containerd() + "  purpose: reconcile\n"},
		{
			name: "only a name",
			text: head + "  criConfig: {name: containerd}\n" +
				"  purpose: provision\n",
		},
		{
			name: "every kind of upstream",
			text: containerd("registries: [{upstream: _default}, {upstream: 'a:5000'}, " +
				"{upstream: 10.0.0.1}, {upstream: '[::1]:5000'}, {upstream: '[fe80::1]'}]"),
		},
		{
			name: "every capability",
			text: mirror("url: 'https://[::1]:5000/v2/x', capabilities: [pull, resolve, push], " +
				"caCerts: [x.crt, a/b, /c], overridePath: true"),
		},
		{
			name: "every value",
			text: containerd("plugins: [{op: add, path: [x], values: [1, 1.5, true, a, {b: " +
				"[]}]}, {path: [y], values: false}]"),
		},
		{
			name: "a removal of what is not there",
			text: containerd("plugins: [{op: remove, path: [x, y]}]"),
		},
		{
			name: "a digest",
			text: strings.Replace(containerd(), "pause:3.10",
				"localhost:5000/a_b/c__d/e-f:V1.0_x@sha256:"+strings.Repeat("a", 64), 1),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := mergeText(test.text, osc.Env{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// criConfig adds files, and makes the document's unit restart with them.
func TestMergeCRIConfig(t *testing.T) {
	env := []config.DropIn{{Name: cri.DropInName, Content: cri.DropIn}}
	files := []string{cri.ConfigFile}
	for _, test := range []struct {
		name, text string
		paths      []string
		unit       []config.Unit
	}{
		{name: "nothing to say", text: head + "  criConfig: {name: containerd}\n"},
		{
			name:  "a driver alone",
			text:  head + "  criConfig: {name: containerd, cgroupDriver: systemd}\n",
			paths: files,
			unit:  []config.Unit{{Name: cri.Unit, DropIns: env, FilePaths: files}},
		},
		{
			name: "the document's unit keeps what it says",
			text: containerd("registries: [{upstream: b}, {upstream: a}]") + "  units: [{name: " +
				"containerd.service, enable: false, command: stop}]\n",
			paths: []string{
				"/etc/containerd/certs.d/a/hosts.toml",
				"/etc/containerd/certs.d/b/hosts.toml", cri.ConfigFile,
			},
			unit: []config.Unit{{
				Name:      cri.Unit,
				Enable:    new(false),
				Command:   config.CommandStop,
				DropIns:   env,
				FilePaths: files,
			}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			desired := merge(t, decode(t, test.text), osc.Env{})
			var paths []string
			for _, file := range desired.Files {
				paths = append(paths, file.Path)
				if file.Mode != 0o644 {
					t.Errorf("%s has the mode %v", file.Path, file.Mode)
				}
			}
			if diff := cmp.Diff(test.paths, paths); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}

			if diff := cmp.Diff(test.unit, desired.Units); diff != "" {
				t.Errorf("units (-want +got):\n%s", diff)
			}
		})
	}
}

// The text is the image's containerd configuration with the requested changes.
func TestMergeCRIConfigText(t *testing.T) {
	base := cri.Base{Schema: 3, Config: []byte("oom_score = 7\n")}
	desired := merge(t, decode(t, mirror("url: 'https://m', caCerts: [x.crt]")),
		osc.Env{Containerd: base})
	hosts := read(t, desired.Files[0].Content)
	config := read(t, desired.Files[1].Content)
	for _, test := range []struct{ text, want string }{
		{config, "oom_score = 7\n"}, {config, "version = 3\n"},
		{config, "sandbox = 'pause:3.10'\n"},
		{hosts, "[host.\"https://m\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = [\"x.crt\"]\n"},
	} {
		if !strings.Contains(test.text, test.want) {
			t.Errorf("no %q in\n%s", test.want, test.text)
		}
	}
}

// A probe has the absolute path of each certificate, and is only made for a
// host that can be reached.
func TestMergeProbes(t *testing.T) {
	desired := merge(t, decode(t, containerd("registries:",
		"- {upstream: b, readinessProbe: true, hosts: [{url: 'https://m', caCerts: [x.crt, "+
			"/y.crt]}, {url: 'http://n'}]}",
		"- {upstream: a, readinessProbe: true, hosts: [{url: 'http://o'}]}",
		"- {upstream: c, readinessProbe: true}",
		"- {upstream: d, readinessProbe: false, hosts: [{url: 'http://p'}]}")), osc.Env{})

	want := []config.Probe{
		{Path: "/etc/containerd/certs.d/a/hosts.toml", URLs: []string{"http://o"}},
		{
			Path:    "/etc/containerd/certs.d/b/hosts.toml",
			URLs:    []string{"https://m", "http://n"},
			CACerts: []string{"/etc/containerd/certs.d/b/x.crt", "/y.crt"},
		},
	}
	if diff := cmp.Diff(want, desired.Probes); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
}
