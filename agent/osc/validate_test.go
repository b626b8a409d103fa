package osc_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
)

const head = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n"

// file returns a document with one file at that path, which is on line 5.
func file(path string) string {
	return fileOf(path, "x")
}

// fileOf returns a document with one file of that text.
func fileOf(path, text string) string {
	return head + "  files:\n  - path: " + path + "\n    content: {inline: {data: '" + text + "'}}\n"
}

// unit returns a document with one unit that has those fields; the first is on
// line 5.
func unit(fields ...string) string {
	return head + "  units:\n  - " + strings.Join(fields, "\n    ") + "\n"
}

// garbage returns n arbitrary bytes, the same in each run.
func garbage(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return string(text)
}

// mergeText decodes, checks and merges text, as the agent does with an
// operator's document.
func mergeText(text string, env osc.Env) error {
	decoded, wrong := osc.Decode("c", []byte(text))
	if err := osc.Check(wrong, decoded, env); err != nil {
		return err
	}
	_, err := osc.Merge(decoded, env)
	return err
}

// accepts reports whether a node accepts a document with these errors from a
// cluster.
func accepts(err error) bool {
	_, refusal := document.Lenient(err)
	return refusal == nil
}

// Each row is a document and the one error that it is refused with. accepted
// marks a mere warning: nodes accept the document from a cluster.
func TestBadInput(t *testing.T) {
	const treeHint = "; hint: choose a path below /etc, /opt, /var, /home, /srv, /root, /usr/local"
	for _, test := range []struct {
		name, text, want string
		accepted         bool
	}{
		// The document.
		{
			name: "broken YAML",
			text: head + "  units: [\n  - name: a.service\n",
			want: "c:4: document: not YAML: did not find expected node content; hint: " +
				"indent with spaces, " +
				"and quote a value that has a colon or begins with a special character",
		},
		{
			name: "1 MiB of garbage",
			text: garbage(1 << 20),
			want: "c:1: document: byte 0x86 is not UTF-8; hint: the document must be UTF-8 text; " +
				"put binary content into a base64 field",
		},
		{
			name: "1 MiB of letters",
			text: strings.Repeat("x", 1<<20),
			want: `c:1: document: is the string "` + strings.Repeat("x", 60) +
				`"…, want fields; hint: write it as name: value lines`,
		},
		{
			name:     "an unknown field",
			accepted: true,
			text:     head + "  unit: []\n",
			want:     "c:4: spec.unit: unknown field; hint: did you mean units?",
		},
		{
			name: "another kind",
			text: "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: Worker\n" +
				"spec: {infrastructure: x}\n",
			want: `c:2: kind: "Worker" is not known here; hint: write kind: OperatingSystemConfig`,
		},
		{
			name:     "an unknown purpose",
			accepted: true,
			text:     head + "  purpose: repair\n",
			want:     `c:4: spec.purpose: "repair" is unknown; hint: write provision or reconcile`,
		},

		// Paths.
		{
			name: "no path",
			text: file(`""`),
			want: "c:5: spec.files[0].path: empty; hint: write an absolute path, " +
				"such as /etc/example.conf",
		},
		{
			name: "a relative path",
			text: file("etc/a"),
			want: `c:5: spec.files[0].path: "etc/a" is not absolute; hint: begin it with /`,
		},
		{
			name: "a path with ..",
			text: file("/etc/../boot/a"),
			want: `c:5: spec.files[0].path: "/etc/../boot/a" holds ..; hint: write the path without it`,
		},
		{
			name: "a path with .. at its end",
			text: file("/etc/.."),
			want: `c:5: spec.files[0].path: "/etc/.." holds ..; hint: write the path without it`,
		},
		{
			name: "the root directory",
			text: file("/"),
			want: `c:5: spec.files[0].path: "/" is a directory; hint: name a file`,
		},
		{
			name: "a path that ends in a slash",
			text: file("/etc/a/"),
			want: `c:5: spec.files[0].path: "/etc/a/" is a directory; hint: name a file`,
		},
		{
			name:     "a path with two slashes",
			accepted: true,
			text:     file("/etc//a"),
			want:     `c:5: spec.files[0].path: "/etc//a" is not in its shortest form; hint: write /etc/a`,
		},
		{
			name: "a path with a line break",
			text: file(`"/etc/a\nb"`),
			want: `c:5: spec.files[0].path: "/etc/a\nb" holds a control character; hint: write the path in printable characters`,
		},
		{
			name: "a path with NUL",
			text: file(`"/etc/a\0"`),
			want: `c:5: spec.files[0].path: "/etc/a\x00" holds a control character; hint: write the path in printable characters`,
		},
		{
			name: "a path outside the allowed tree",
			text: file("/usr/bin/ls"),
			want: `c:5: spec.files[0].path: "/usr/bin/ls" is outside the trees a configuration may write` + treeHint,
		},
		{
			name: "a path that only looks allowed",
			text: file("/etcetera"),
			want: `c:5: spec.files[0].path: "/etcetera" is outside the trees a configuration may write` + treeHint,
		},
		{
			name: "an allowed tree itself",
			text: file("/etc"),
			want: `c:5: spec.files[0].path: "/etc" is outside the trees a configuration may write` +
				treeHint,
		},
		{
			name: "a long name",
			text: file("/etc/" + strings.Repeat("a", 256)),
			want: `c:5: spec.files[0].path: "/etc/` + strings.Repeat("a", 55) +
				`"… is too long; hint: keep each part within 255 bytes, and all of it within 1024`,
		},
		{
			name: "a path of too many directories",
			text: file("/etc" + strings.Repeat("/d", 15) + "/a"),
			want: `c:5: spec.files[0].path: "/etc` + strings.Repeat("/d", 15) +
				`/a" is too deep; hint: keep it within 16 directories`,
		},
		{
			name: "a directory by its second name",
			text: file("/var/opt/bin/x"),
			want: `c:5: spec.files[0].path: "/var/opt/bin/x" is refused: it is the same directory as /opt; hint: write the path with /opt`,
		},
		{
			name: "a unit before the image's",
			text: file("/etc/systemd/system.control/loam-agent.service"),
			want: `c:5: spec.files[0].path: "/etc/systemd/system.control/loam-agent.service" is refused: ` +
				`units there override those of the image, the node agent's too; hint: list the unit in units`,
		},
		{
			name: "a library for every program",
			text: file("/etc/ld.so.preload"),
			want: `c:5: spec.files[0].path: "/etc/ld.so.preload" is refused: every program of the node would load what it names; hint: set LD_PRELOAD= in the unit that needs it`,
		},
		{
			name: "a generator of units",
			text: file("/etc/systemd/system-generators/mine"),
			want: `c:5: spec.files[0].path: "/etc/systemd/system-generators/mine" is refused: ` +
				"programs there run before the node agent can judge them, at each boot; " +
				"hint: list units in units",
		},
		{
			name: "the configuration of PID 1",
			text: file("/etc/systemd/system.conf.d/mine.conf"),
			want: `c:5: spec.files[0].path: "/etc/systemd/system.conf.d/mine.conf" is refused: it changes PID 1, the next boot included; hint: write drop-ins for units`,
		},
		{
			name: "the agent's state",
			text: file("/var/lib/loam/journal.json"),
			want: `c:5: spec.files[0].path: "/var/lib/loam/journal.json" is refused: it holds the node agent's own state; hint: choose another directory of /var/lib`,
		},
		{
			name: "the machine id",
			text: file("/etc/machine-id"),
			want: `c:5: spec.files[0].path: "/etc/machine-id" is refused: it is the identity of this one machine; hint: leave it out`,
		},
		{
			name: "an enablement link",
			text: file("/etc/systemd/system/multi-user.target.wants/a.service"),
			want: `c:5: spec.files[0].path: "/etc/systemd/system/multi-user.target.wants/a.service" is refused: ` +
				"enablement follows from the units; hint: list the unit in units, " +
				"with WantedBy= in [Install]",
		},

		// Files.
		{
			name:     "a duplicate path",
			accepted: true,
			text:     file("/etc/a") + "  - path: /etc/a\n    content: {inline: {data: y}}\n",
			want:     `c:7: spec.files[1].path: "/etc/a" given twice, first at spec.files[0].path; hint: keep one of them, or give each another hostName`,
		},
		{
			name:     "a duplicate path of one host, third and second",
			accepted: true,
			text: file("/etc/a") + "    hostName: x\n" +
				"  - {path: /etc/a, hostName: y, content: {inline: {data: y}}}\n" +
				"  - {path: /etc/a, hostName: y, content: {inline: {data: z}}}\n",
			want: `c:9: spec.files[2].path: "/etc/a" given twice, first at spec.files[1].path; hint: keep one of them, or give each another hostName`,
		},
		{
			name:     "a path for a host and for all",
			accepted: true,
			text: file("/etc/a") + "    hostName: x\n" +
				"  - {path: /etc/a, content: {inline: {data: y}}}\n",
			want: `c:8: spec.files[1].path: "/etc/a" given twice, first at spec.files[0].path; hint: keep one of them, or give each another hostName`,
		},
		{
			name:     "a duplicate path of an extension",
			accepted: true,
			text: file("/etc/a") + "status:\n  extensionFiles:\n" +
				"  - {path: /etc/a, content: {inline: {data: y}}}\n",
			want: `c:9: status.extensionFiles[0].path: "/etc/a" given twice, first at spec.files[0].path; hint: keep one of them, or give each another hostName`,
		},
		{
			name: "a file below a file",
			text: file("/etc/a/b/c") + "  - {path: /etc/a, content: {inline: {data: y}}}\n",
			want: `c:5: spec.files[0].path: "/etc/a/b/c" is below a file, spec.files[1].path; hint: move one of them`,
		},
		{
			name:     "a file in the place of a unit",
			accepted: true,
			text: fileOf("/etc/systemd/system/a.service", "# x") + "  units: [{name: a.service, " +
				"content: \"[Service]\\nExecStart=/bin/true\\n\"}]\n",
			want: `c:5: spec.files[0].path: "/etc/systemd/system/a.service" given twice, first at spec.units[0].content; hint: keep one of them, or give each another hostName`,
		},
		{
			name:     "bad mode",
			accepted: true,
			text:     file("/etc/a") + "    permissions: 0o10000\n",
			want: "c:7: spec.files[0].permissions: 4096 is more than 07777; hint: " +
				"write an octal number such as 0644 (decimal 420)",
		},
		{
			name:     "a decimal mode that is meant as octal",
			accepted: true,
			text:     file("/etc/a") + "    permissions: 644\n",
			want: "c:7: spec.files[0].permissions: 644 is decimal and sets the mode 01204; " +
				"hint: write 0644 for the octal number",
		},
		{
			name: "a mode in quotes",
			text: file("/etc/a") + "    permissions: \"0644\"\n",
			want: `c:7: spec.files[0].permissions: is the string "0644", want a whole number; hint: write digits, without quotes`,
		},
		{
			name: "a host name in upper case",
			text: file("/etc/a") + "    hostName: NUC\n",
			want: `c:7: spec.files[0].hostName: "NUC" is not a host name; hint: write it in lower case: letters, digits, dashes and dots`,
		},
		{
			name: "no content",
			text: head + "  files:\n  - path: /etc/a\n    content: {}\n",
			want: "c:6: spec.files[0].content: empty; hint: give one of inline, " +
				"secretRef and imageRef",
		},
		{
			name: "two kinds of content",
			text: head + "  files:\n  - path: /etc/a\n" +
				"    content: {inline: {data: x}, secretRef: {name: a, dataKey: b}}\n" +
				"    hostName: other\n",
			want: "c:6: spec.files[0].content: has more than one kind; hint: keep one of inline, " +
				"secretRef and imageRef",
		},
		{
			name:     "no data",
			accepted: true,
			text:     head + "  files:\n  - path: /etc/a\n    content: {inline: {encoding: b64}}\n",
			want:     `c:6: spec.files[0].content.inline.data: empty; hint: write the content here, or "" for an empty file`,
		},
		{
			name: "an unknown encoding",
			text: head + "  files:\n  - path: /etc/a\n" +
				"    content: {inline: {encoding: gzip, data: x}}\n",
			want: `c:6: spec.files[0].content.inline.encoding: "gzip" is unknown; hint: write b64, or leave it out for text`,
		},
		{
			name: "bad base64",
			text: head + "  files:\n  - path: /etc/a\n" +
				"    content: {inline: {encoding: b64, data: a}}\n",
			want: "c:6: spec.files[0].content.inline.data: is not base64: " +
				"illegal base64 data at input byte 0; hint: encode the content with base64(1)",
		},

		// Units.
		{
			name: "a unit without a name",
			text: unit("enable: true"),
			want: "c:5: spec.units[0].name: empty; hint: name the unit, with its type: " +
				"example.service",
		},
		{
			name: "a unit without a type",
			text: unit("name: a"),
			want: `c:5: spec.units[0].name: "a" does not end with a type of unit; hint: end it with .service or another type of unit`,
		},
		{
			name: "a misspelt type",
			text: unit("name: a.servcie"),
			want: `c:5: spec.units[0].name: "a.servcie" does not end with a type of unit; hint: did you mean .service?`,
		},
		{
			name: "a unit that is only a type",
			text: unit("name: .service"),
			want: `c:5: spec.units[0].name: ".service" has nothing before its type; hint: write a name before it`,
		},
		{
			name: "a unit with a slash",
			text: unit("name: ../a.service"),
			want: `c:5: spec.units[0].name: "../a.service" holds a character that no unit name has; hint: use letters, digits and :-_.\@ (systemd-escape(1) converts a path)`,
		},
		{
			name: "an alias over a unit of Loam",
			text: unit(
				`{name: a.service, content: "[Service]\nExecStart=/bin/true\n[Install]\nAlias=b.service \\\n loam-agent.service\n"}`,
			),
			want: `c:5: spec.units[0].content: the alias "loam-agent.service" is refused: it belongs to Loam; hint: choose another name`,
		},
		{
			name: "a unit for which the agent would wait",
			text: unit(
				`{name: a.service, content: "[Unit]\nDefaultDependencies=no\nBefore=systemd-tmpfiles-setup.service\n[Service]\nExecStart=/bin/true\n"}`,
			),
			want: `c:5: spec.units[0].content: Before="systemd-tmpfiles-setup.service" is refused: a unit of Loam would wait for it; hint: leave it out: the unit starts beside those of Loam`,
		},
		{
			name: "a drop-in for a unit after which the agent starts",
			text: unit(
				`name: systemd-journald.socket`, `dropIns: [{name: a.conf, content: "[Unit]\nAfter=a.service\n"}]`),
			want: `c:5: spec.units[0].name: "systemd-journald.socket" is refused: it belongs to Loam; hint: choose another name`,
		},
		{
			name: "a unit that stops the agent",
			text: unit(
				`{name: a.service, content: "[Unit]\nConflicts=b.service loam-agent.service\n[Service]\nExecStart=/bin/true\n"}`,
			),
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a unit that stops the agent, in quotes",
			text: unit(
				`{name: a.service, content: "[Unit]\nConflicts=b.service loam'-agent.service'\n[Service]\nExecStart=/bin/true\n"}`,
			),
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a unit that stops the agent, between words with quotes",
			text: unit("name: a.service",
				`dropIns: [{name: a.conf, content: "[Unit]\nPropagatesStopTo=a' loam-agent.service 'b\n"}]`),
			want: `c:6: spec.units[0].dropIns[0].content: PropagatesStopTo="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a unit that stops the agent, by its own name",
			text: unit(
				`{name: x-agent@loam.service, content: "[Unit]\nConflicts=%i-%j.service\n[Service]\nExecStart=/bin/true\n"}`,
			),
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a unit that stops the agent, by the name of the image",
			text: unit(
				`{name: a.service, content: "[Unit]\nConflicts=%o-agent.service\n[Service]\nExecStart=/bin/true\n"}`,
			),
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a template with an instance that stops the agent",
			text: unit(
				`{name: a@.service, content: "[Unit]\nConflicts=%i.service\n[Service]\nExecStart=/bin/true\n"}`,
			) + "  - name: a@loam-agent.service\n",
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a template with a default instance that stops the agent",
			text: unit(
				`{name: a@.service, content: "[Unit]\nConflicts=%i.service\n[Service]\nExecStart=/bin/true\n[Install]\nDefaultInstance=loam-agent\n"}`,
			),
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a template with an instance that another unit starts",
			text: unit(
				`{name: a@.service, content: "[Unit]\nConflicts=%i\n[Service]\nExecStart=/bin/true\n"}`,
			) + `  - {name: b.target, content: "[Unit]\nWants=a@loam-agent.service.service\n"}` + "\n",
			want: `c:5: spec.units[0].content: Conflicts="loam-agent.service" is refused: it stops a unit of Loam; hint: leave it out`,
		},
		{
			name: "a unit that the agent needs",
			text: unit(
				`{name: a.service, content: "[Service]\nExecStart=/bin/true\n[Install]\nRequiredBy=loam-agent.service\n"}`,
			),
			want: `c:5: spec.units[0].content: RequiredBy="loam-agent.service" is refused: it changes a unit of Loam; hint: name another unit, such as multi-user.target`,
		},
		{
			name: "a unit that the agent waits for",
			text: unit(
				`{name: a.service, content: "[Unit]\nBefore=network.target loam-agent.service\n[Service]\nExecStart=/bin/true\n"}`,
			),
			want: `c:5: spec.units[0].content: Before="loam-agent.service" is refused: a unit of Loam would wait for it; hint: leave it out: the unit starts beside those of Loam`,
		},
		{
			name: "a unit that the agent starts",
			text: unit(
				`{name: a.service, content: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target \"loam-agent.service\"\n"}`,
			),
			want: `c:5: spec.units[0].content: WantedBy="loam-agent.service" is refused: it changes a unit of Loam; hint: name another unit, such as multi-user.target`,
		},
		{
			name: "a unit that the agent keeps up",
			text: unit(
				`{name: a.service, content: "[Service]\nExecStart=/bin/true\n[Install]\nUpheldBy=loam-agent.service\n"}`,
			),
			want: `c:5: spec.units[0].content: UpheldBy="loam-agent.service" is refused: it changes a unit of Loam; hint: name another unit, such as multi-user.target`,
		},
		{
			name: "a unit of Loam",
			text: unit("name: loam-agent.service"),
			want: `c:5: spec.units[0].name: "loam-agent.service" is refused: it belongs to Loam; hint: choose another name`,
		},
		{
			name:     "an unknown command",
			accepted: true,
			text:     unit("name: a.service", "command: reload"),
			want:     `c:6: spec.units[0].command: "reload" is unknown; hint: write start, restart or stop`,
		},
		{
			name:     "a misspelt command",
			accepted: true,
			text:     unit("name: a.service", "command: Stop"),
			want:     `c:6: spec.units[0].command: "Stop" is unknown; hint: did you mean stop?`,
		},
		{
			name:     "a template to start",
			accepted: true,
			text:     unit("name: a@.service", "command: start"),
			want: "c:6: spec.units[0].command: a template cannot be started; hint: " +
				"start an instance of it: example@instance.service",
		},
		{
			name:     "empty content",
			accepted: true,
			text:     unit("name: a.service", `content: ""`),
			want: "c:6: spec.units[0].content: empty, which would mask the unit; hint: " +
				"leave content out to keep the image's unit, or use enable: false",
		},
		{
			name: "content of a device",
			text: unit("name: a.device", `content: "[Unit]"`),
			want: `c:5: spec.units[0].name: "a.device" is made by systemd itself; ` +
				"hint: write a drop-in for a service, a slice or a mount",
		},
		{
			name: "a drop-in for PID 1",
			text: unit("name: init.scope", `dropIns: [{name: a.conf, content: "[Scope]\nMemoryMax=1G\n"}]`),
			want: `c:5: spec.units[0].name: "init.scope" is refused: it changes PID 1, ` +
				"the next boot included; hint: write drop-ins for units",
		},
		{
			name: "a drop-in in the place of the image's",
			text: unit("name: kubelet.service",
				`dropIns: [{name: 10-loam-data-volume.conf, content: "[Unit]"}]`),
			want: `c:6: spec.units[0].dropIns[0].name: "10-loam-data-volume.conf" is refused: ` +
				"it would take the place of the image's drop-in of that name; hint: choose another name",
		},
		{
			name:     "a drop-in without .conf",
			accepted: true,
			text:     unit("name: a.service", `dropIns: [{name: a, content: "[Unit]"}]`),
			want:     `c:6: spec.units[0].dropIns[0].name: "a" does not end with .conf, so systemd would ignore it; hint: write a.conf`,
		},
		{
			name: "a drop-in elsewhere",
			text: unit("name: a.service", `dropIns: [{name: ../a.conf, content: "[Unit]"}]`),
			want: `c:6: spec.units[0].dropIns[0].name: "../a.conf" is not a file name; hint: leave out slashes and control characters`,
		},
		{
			name:     "a drop-in twice",
			accepted: true,
			text: unit("name: a.service", `dropIns: [{name: a.conf, content: "[Unit]"}]`) +
				"status: {extensionUnits: [{name: a.service, dropIns: [{name: a.conf, content: " +
				"\"[Unit]\"}]}]}\n",
			want: "c:7: status.extensionUnits[0].dropIns[0].name: given twice, " +
				"first at spec.units[0].dropIns[0].name; hint: keep one of them",
		},
		{
			name:     "two contents of a unit",
			accepted: true,
			text: unit("name: a.target", `content: "[Unit]"`) + "  - {name: a.target, " +
				"content: \"[Unit]\"}\n",
			want: "c:7: spec.units[1].content: given twice, first at spec.units[0].content; " +
				"hint: keep one of them",
		},
		{
			name:     "a file path that is no file",
			accepted: true,
			text:     unit("name: a.service", "filePaths: [/etc/a]"),
			want:     `c:6: spec.units[0].filePaths[0]: "/etc/a" is not among the files; hint: add the file, or remove it here`,
		},

		// Unit files.
		{
			name:     "a line that is not an assignment",
			accepted: true,
			text: unit("name: a.service", "content: |", "  [Service]", "  # fine",
				"  ExecStart /bin/true"),
			want: `c:9: spec.units[0].content: line 3: "ExecStart /bin/true" is not an assignment; hint: write Name=value, or begin a comment with #`,
		},
		{
			name:     "an assignment before any section",
			accepted: true,
			text:     unit("name: a.service", "content: |", "  Type=exec"),
			want:     `c:7: spec.units[0].content: line 1: "Type=exec" comes before any section; hint: begin with a section, such as [Service]`,
		},
		{
			name:     "a section without its bracket",
			accepted: true,
			text:     unit("name: a.service", "content: |", "  [Service"),
			want:     `c:7: spec.units[0].content: line 1: "[Service" has no closing bracket; hint: write it as [Service]`,
		},
		{
			name:     "a misspelt section",
			accepted: true,
			text:     unit("name: a.service", "content: |", "  [Servcie]"),
			want:     `c:7: spec.units[0].content: line 1: the section "Servcie" is unknown to systemd; hint: did you mean [Service]?`,
		},
		{
			name:     "a directive with a typing error",
			accepted: true,
			text: unit("name: a.service", "content: |", "  [Service]", "  ExecStart=/bin/true",
				"  Restrat=always"),
			want: `c:9: spec.units[0].content: line 3: systemd has no directive "Restrat" in [Service]; hint: did you mean Restart?`,
		},
		{
			name:     "a directive with a typing error in a drop-in of the image's unit",
			accepted: true,
			text: unit("name: containerd.service",
				`dropIns: [{name: a.conf, content: "[Service]\nMemroyMax=1G"}]`),
			want: `c:6: spec.units[0].dropIns[0].content: line 2: systemd has no directive "MemroyMax" in [Service]; hint: did you mean MemoryMax?`,
		},
		{
			name:     "a directive that there is nothing like",
			accepted: true,
			text:     unit("name: a.target", `content: "[Unit]\nSomethingElse=1"`),
			want:     `c:6: spec.units[0].content: line 2: systemd has no directive "SomethingElse" in [Unit]; hint: see systemd.unit(5); your own must begin with X-`,
		},
		{
			name:     "a directive of another section",
			accepted: true,
			text: unit("name: a.service", "content: |", "  [Service]", "  ExecStart=/bin/true",
				"  After=network.target"),
			want: `c:9: spec.units[0].content: line 3: systemd has no directive "After" in [Service]; hint: move it to [Unit]`,
		},
		{
			name:     "a section of another type of unit",
			accepted: true,
			text:     unit("name: a.timer", `content: "[Service]\nExecStart=/bin/true"`),
			want:     `c:6: spec.units[0].content: line 1: units of this type have no section "Service"; hint: leave it out, or write it in a .service unit`,
		},
		{
			name:     "a service that starts nothing",
			accepted: true,
			text:     unit("name: a.service", `content: "[Unit]\n"`),
			want:     `c:6: spec.units[0].content: systemd refuses the service: it has no ExecStart=; hint: write ExecStart= in [Service]`,
		},
		{
			name:     "a service that only stops something",
			accepted: true,
			text:     unit("name: a.service", `content: "[Service]\nType=exec\nExecStop=/bin/true\n"`),
			want:     `c:6: spec.units[0].content: systemd refuses the service: it has no ExecStart=, and is not of Type=oneshot; hint: write ExecStart= in [Service]`,
		},
		{
			name:     "a service that does something only at the end, and does not stay",
			accepted: true,
			text: unit("name: a.service",
				`content: "[Service]\nType=oneshot\nExecStop=/bin/true\n"`),
			want: `c:6: spec.units[0].content: systemd refuses the service: it has no ExecStart=, and no RemainAfterExit=yes; hint: write ExecStart= or RemainAfterExit=yes in [Service]`,
		},
		{
			name:     "a service that starts two programs",
			accepted: true,
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n"`,
				`dropIns: [{name: a.conf, content: "[Service]\nExecStart=/bin/false\n"}]`),
			want: `c:6: spec.units[0].content: systemd refuses the service: it has 2 lines of ExecStart=, and is not of Type=oneshot; hint: keep one of them, write Type=oneshot, or empty the list first with ExecStart=`,
		},
		{
			name:     "a service that runs once, and always",
			accepted: true,
			text: unit("name: a.service",
				`content: "[Service]\nType=oneshot\nExecStart=/bin/true\nRestart=always\n"`),
			want: `c:6: spec.units[0].content: systemd refuses the service: it has Type=oneshot and Restart=always; hint: write Restart=on-failure, or no Restart=`,
		},
		{
			name:     "a service on D-Bus without a name",
			accepted: true,
			text: unit("name: a.service",
				`content: "[Service]\nType=dbus\nExecStart=/bin/true\n"`),
			want: `c:6: spec.units[0].content: systemd refuses the service: it has Type=dbus and no BusName=; hint: write BusName= in [Service]`,
		},
		{
			name: "an alias of another type",
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nAlias=y\n"`),
			want: `c:6: spec.units[0].content: line 4: Alias="y" is not the name of a unit of the same type; hint: end it with .service`,
		},
		{
			name: "an alias that is put together from the name, of another type",
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nAlias=%p.socket\n"`),
			want: `c:6: spec.units[0].content: line 4: Alias="%p.socket" is not the name of a unit of the same type; hint: end it with .service`,
		},
		{
			name:     "an alias of a type that has none",
			accepted: true,
			text:     unit("name: a.slice", `content: "[Install]\nAlias=b.slice\n"`),
			want:     `c:6: spec.units[0].content: line 2: Alias="b.slice" has no effect: units of this type have no aliases; hint: leave it out`,
		},
		{
			name: "a specifier of the machine in [Install]",
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=%H.target\n"`),
			want: `c:6: spec.units[0].content: line 4: WantedBy="%H.target" has a specifier that is not supported there; hint: use %n, %N, %p, %i or %j, or write the name in full`,
		},
		{
			name: "a target that is a path",
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nRequiredBy=b.target a/b.target\n"`),
			want: `c:6: spec.units[0].content: line 4: RequiredBy="a/b.target" is not the name of a unit; hint: write a name without slashes: systemd-escape(1) converts a path`,
		},
		{
			name:     "a target with a typing error in its type",
			accepted: true,
			text:     unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\n# x\nWantedBy=multi-user.traget\n"`),
			want:     `c:6: spec.units[0].content: line 5: WantedBy="multi-user.traget" is not the name of a unit; hint: end it with a type of unit, as in multi-user.target`,
		},
		{
			name:     "a target without a type",
			accepted: true,
			text:     unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nUpheldBy=\"multi-user\"\n"`),
			want:     `c:6: spec.units[0].content: line 4: UpheldBy="multi-user" is not the name of a unit; hint: end it with a type of unit, as in multi-user.target`,
		},
		{
			name:     "a target whose quote is not closed",
			accepted: true,
			text:     unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=\"b.target\n"`),
			want:     `c:6: spec.units[0].content: line 4: WantedBy="\"b.target" has a quote that is not closed; hint: close it`,
		},
		{
			name: "a specifier in Also",
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nAlso=%p.socket\n"`),
			want: `c:6: spec.units[0].content: line 4: Also="%p.socket" is not the name of a unit; hint: write the name without specifiers, with its type: example.socket`,
		},
		{
			name:     "a default instance of no template",
			accepted: true,
			text:     unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=b.target\nDefaultInstance=x\n"`),
			want:     `c:6: spec.units[0].content: line 5: DefaultInstance="x" has an effect in templates only; hint: leave it out, or name the unit example@.service`,
		},
		{
			name:     "a default instance that no instance is called",
			accepted: true,
			text:     unit("name: a@.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nDefaultInstance=x y\nWantedBy=b.target\n"`),
			want:     `c:6: spec.units[0].content: line 4: DefaultInstance="x y" is not a part of a unit's name; hint: use letters, digits and :-_.\@`,
		},
		{
			name:     "a target that the default instance makes wrong",
			accepted: true,
			text:     unit("name: a@.service", `content: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=b.%i\nDefaultInstance=traget\n"`),
			want:     `c:6: spec.units[0].content: line 4: WantedBy="b.%i" is not the name of a unit; hint: end it with a type of unit, as in multi-user.target`,
		},
		{
			name: "an alias of another type in a drop-in of the image's unit",
			text: unit("name: containerd.service",
				`dropIns: [{name: a.conf, content: "[Install]\nAlias=y\n"}]`),
			want: `c:6: spec.units[0].dropIns[0].content: line 2: Alias="y" is not the name of a unit of the same type; hint: end it with .service`,
		},
		{
			name:     "an alias of another type, of a unit that is not enabled",
			accepted: true,
			text: unit("name: a.service", "enable: false",
				`content: "[Service]\nExecStart=/bin/true\n[Install]\nAlias=y\n"`),
			want: `c:7: spec.units[0].content: line 4: Alias="y" is not the name of a unit of the same type; hint: end it with .service`,
		},
		{
			name:     "an alias of another type, which a drop-in takes back",
			accepted: true,
			text: unit("name: a.service",
				`content: "[Service]\nExecStart=/bin/true\n[Install]\nAlias=y\n"`,
				`dropIns: [{name: a.conf, content: "[Install]\nAlias=\n"}]`),
			want: `c:6: spec.units[0].content: line 4: Alias="y" is not the name of a unit of the same type; hint: end it with .service`,
		},
		{
			name:     "an assignment without a name",
			accepted: true,
			text:     unit("name: a.service", `content: "[Unit]\n=x"`),
			want: "c:6: spec.units[0].content: line 2: an assignment has no name; hint: " +
				"write Name=value",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := mergeText(test.text, osc.Env{Hostname: "HERE"})
			var errs document.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error %v, want document.Errors", err)
			}

			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got := accepts(err); got != test.accepted {
				t.Errorf("accepted from a cluster: %v, want %v", got, test.accepted)
			}
		})
	}
}

// Each row is unusual and valid.
func TestGoodInput(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{name: "nothing", text: head},
		{
			name: "a template and an instance",
			text: unit("name: a@.service", `content: "[Service]\nExecStart=/bin/true\n"`) +
				"  - {name: a@x-y\\x2d1.service, enable: true}\n",
		},
		{
			name: "another program than the unit's own, in a drop-in",
			text: unit("name: a.service", `content: "[Service]\nExecStart=/bin/true\n"`,
				`dropIns: [{name: a.conf, content: "[Service]\nExecStart=\nExecStart=/bin/false\n"}]`),
		},
		{
			name: "a program only in a drop-in",
			text: unit("name: a.service", `content: "[Unit]\nX-Mine=1\n"`,
				`dropIns: [{name: a.conf, content: "[Service]\nExecStart=/bin/true\n"}]`),
		},
		{
			name: "a service that does something only at the end",
			text: unit("name: a.service",
				`content: "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStop=/bin/true\n"`),
		},
		{
			name: "a service that is an end",
			text: unit("name: a.service", `content: "[Unit]\nSuccessAction=poweroff\n"`),
		},
		{name: "an escaped mount", text: unit(`name: 'var-lib-a\x2db.mount'`)},
		{
			name: "[Install] for units of each type",
			text: unit("name: a-b.service", "content: |", "  [Service]", "  ExecStart=/bin/true",
				"  [Install]", `  WantedBy=a.target b.service "c.socket" dev-d\x2de.device -.slice`,
				"  WantedBy=e.mount f.automount g.swap h.timer i.path j@k.service l@.service",
				"  RequiredBy=%p.target %N.target %j.target m-%u.target", "  UpheldBy=",
				"  Alias=c.service d@e.service", "  Also=f.socket", "  DefaultInstance="),
		},
		{
			name: "[Install] of a template, and of one with a default instance",
			text: unit("name: a@.service", "content: |", "  [Service]", "  ExecStart=/bin/true",
				"  [Install]", "  WantedBy=%i.target %i b@%i.service b@.target c.target",
				"  Alias=%i.service c@.service") +
				"  - name: b@.service\n    content: |\n      [Service]\n      ExecStart=/bin/true\n" +
				"      [Install]\n      DefaultInstance=x-%p\n      WantedBy=%i.target\n",
		},
		{
			name: "[Install] in a drop-in for a prefix of names",
			text: fileOf("/etc/systemd/system/a-.service.d/x.conf",
				"[Install]\n\n      WantedBy=%j.target"),
		},
		{
			name: "continued lines with a comment between",
			text: unit("name: a.service", "content: |", "  [Service]", `  ExecStart=/bin/echo a \`,
				"    # why", "    [b] \\", "    c", "  ; end"),
		},
		{
			name: "a disabled unit with a command",
			text: unit("name: a.service", "enable: false", "command: start"),
		},
		{
			name: "a section of one's own",
			text: unit("name: a.target", "content: |", "  [X-Site]", "  Rack=4", "  [Unit]",
				"  X-Rack=4"),
		},
		{
			name: "placeholders",
			text: head + "  purpose: provision\n  files:\n" +
				"  - path: /var/lib/gardener-node-agent/credentials/bootstrap-token\n" +
				"    content: {transmitUnencoded: true, inline: {data: <<BOOTSTRAP_TOKEN>>}}\n",
		},
		{
			name: "an empty file",
			text: head + "  files:\n  - path: /etc/a\n" +
				"    content: {inline: {data: \"\"}}\n",
		},
		{
			name: "a path for each of two hosts",
			text: file("/etc/a") + "    hostName: x\n" +
				"  - {path: /etc/a, hostName: y, content: {inline: {data: y}}}\n",
		},
		{
			name: "a file below a file of another host",
			text: file("/etc/a") + "    hostName: x\n" +
				"  - {path: /etc/a/b, hostName: y, content: {inline: {data: y}}}\n",
		},
		{
			name: "a reference for another host",
			text: head + "  files:\n  - path: /etc/a\n" +
				"    hostName: other\n    content: {secretRef: {name: a, dataKey: b}}\n",
		},
		{name: "every mode bit", text: file("/etc/a") + "    permissions: 0o7777\n"},
		{
			name: "a unit twice in a list, each with something else",
			text: unit("name: a.service", "enable: true") + "  - {name: a.service, " +
				"command: restart}\n",
		},
		{
			name: "a file beside the units",
			text: fileOf("/etc/systemd/system/a.service.d/x.conf", "# x"),
		},
		{
			name: "what the cluster's controllers note",
			text: head + "  type: appliance\n" +
				"  class: x\n  purpose: provision\n  providerConfig: {a: [1]}\nmetadata:\n" +
				"  creationTimestamp: null\nstatus:\n  observedGeneration: 3\n" +
				"  cloudConfig: {secretRef: {name: a}}\n  lastOperation: {progress: 100}\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := mergeText(test.text, osc.Env{Hostname: "here"}); err != nil {
				t.Error(err)
			}
		})
	}
}
