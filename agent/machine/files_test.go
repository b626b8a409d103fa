package machine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/machine"
)

const fromGardener = head + "source: {nodeAgent: {}}\nfiles:\n"

func TestFiles(t *testing.T) {
	text := fromGardener + `- path: /var/lib/gardener-node-agent/config-v0.0.0-master+$Format:%H$.yaml
  mode: 0640
  content: |
    kind: NodeAgentConfiguration
- {path: /var/lib/gardener-node-agent/credentials/bootstrap-token, base64: YWJjZGVmLjAxMjM0NTY3ODlhYmNkZWY=}
- {path: /var/lib/gardener-node-agent/machine-name, content: "machine-1\n"}
`

	m, err := machine.Decode("m", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, f := range m.Files {
		got = append(got, f.Permissions().String()+" "+string(f.Data()))
	}

	want := []string{
		"-rw-r----- kind: NodeAgentConfiguration\n", "-rw------- abcdef.0123456789abcdef",
		"-rw------- machine-1\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	if got := m.MachineName(); got != "machine-1" {
		t.Errorf("MachineName() = %q", got)
	}
	if got := (machine.Machine{}).MachineName(); got != "" {
		t.Errorf("MachineName() without files = %q", got)
	}
}

func TestFilesErrors(t *testing.T) {
	const (
		dir     = "/var/lib/gardener-node-agent"
		notHere = " is not a file that can be given here; hint: write one directly in " + dir +
			", or " + dir + "/credentials/bootstrap-token"
		own      = " is a file that the agent writes itself; hint: leave it out"
		modeHint = " lets others write, or the owner not read; hint: " +
			"write an octal number such as 0640"
		reader = "m:3: files: are allowed only with a source that reads " + dir + "; hint: " +
			"write source: {nodeAgent: {}}, or leave files out"
	)

	file := func(more string) string {
		return fromGardener + "- path: " + dir + "/zone\n  " + more + "\n"
	}

	at := func(path string) string { return fromGardener + "- {path: " + path + ", content: a}\n" }

	for _, test := range []struct{ name, text, want string }{
		{
			name: "no source reads them",
			text: head + "files:\n- {path: " + dir + "/zone, content: a}\n",
			want: reader,
		},
		{
			name: "the source reads another directory",
			text: head + "files: [{path: " + dir + "/zone, content: a}]\n" +
				"source: {nodeAgent: {directory: /srv}}\n",
			want: reader,
		},
		{
			name: "elsewhere",
			text: at("/etc/passwd"),
			want: `m:5: files[0].path: "/etc/passwd"` + notHere,
		},
		{
			name: "a directory beside",
			text: at(dir + "-2/zone"),
			want: `m:5: files[0].path: "` + dir + `-2/zone"` + notHere,
		},
		{
			name: "a way out",
			text: at(dir + "/../x"),
			want: `m:5: files[0].path: "` + dir +
				`/../x" is not the absolute path of a file; hint: begin it with / and leave out . and .. and a / at the end`,
		},
		{
			name: "the certificate of the agent",
			text: at(dir + "/credentials/kubeconfig"),
			want: `m:5: files[0].path: "` + dir + `/credentials/kubeconfig"` + notHere,
		},
		{
			name: "a directory of the agent",
			text: at(dir + "/credentials"),
			want: `m:5: files[0].path: "` + dir + `/credentials"` + notHere,
		},
		{
			name: "a hidden file",
			text: at(dir + "/.zone"),
			want: `m:5: files[0].path: "` + dir + `/.zone"` + notHere,
		},
		{
			name: "what the agent keeps",
			text: at(dir + "/secret-name"),
			want: `m:5: files[0].path: "` + dir + `/secret-name"` + own,
		},
		{
			name: "the record of the files",
			text: at(dir + "/placed-files"),
			want: `m:5: files[0].path: "` + dir + `/placed-files"` + own,
		},
		{
			name: "no path",
			text: fromGardener + "- {content: a}\n",
			want: "m:5: files[0].path: empty; hint: write an absolute path, such as " + dir +
				"/machine-name",
		},
		{
			name: "one twice",
			text: at(dir+"/zone") + "- {path: " + dir + "/zone, content: b}\n",
			want: `m:6: files[1].path: "` + dir + `/zone" given twice; hint: keep one of them`,
		},
		{
			name: "a decimal mode",
			text: file("mode: 640\n  content: a"),
			want: "m:6: files[0].mode: 01200" + modeHint,
		},
		{
			name: "a file that others can write",
			text: file("mode: 0666\n  content: a"),
			want: "m:6: files[0].mode: 0666" + modeHint,
		},
		{
			name: "a file that its owner cannot read",
			text: file("mode: 0\n  content: a"),
			want: "m:6: files[0].mode: 00" + modeHint,
		},
		{
			name: "no content",
			text: file("mode: 0600"),
			want: "m:5: files[0].content: empty; hint: write the text of the file, " +
				"or its bytes as base64",
		},
		{
			name: "two contents",
			text: file("content: a\n  base64: YQ=="),
			want: "m:7: files[0].base64: is set as well as content; hint: keep one of them",
		},
		{
			name: "no base64",
			text: file("base64: YQ"),
			want: "m:6: files[0].base64: is not base64: illegal base64 data at input byte 0; " +
				"hint: write it as `base64` prints it (RFC 4648, section 4)",
		},
		{
			name: "user data as it was before the machine was created",
			text: file("content: <<BOOTSTRAP_TOKEN>>"),
			want: "m:6: files[0].content: has the placeholder <<BOOTSTRAP_TOKEN>>; hint: " +
				"write the value itself, as Gardener's machine-controller-manager does for the " +
				"machines that it creates",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := machine.Decode("m", []byte(test.text))
			if err == nil {
				t.Fatal("Decode: no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzFiles checks that no file is written outside of its directory.
func FuzzFiles(f *testing.F) {
	f.Add("/var/lib/gardener-node-agent/zone", "a")
	f.Add("/var/lib/gardener-node-agent/../loam/held.json", "a")

	f.Fuzz(func(t *testing.T, path, content string) {
		m, err := machine.Decode("m",
			[]byte(fromGardener+"- {path: "+path+", content: "+content+"}\n"))
		if err != nil {
			return
		}
		for _, file := range m.Files {
			name, ok := strings.CutPrefix(file.Path, machine.NodeAgentDirectory+"/")
			if !ok || (name != "credentials/bootstrap-token" && strings.ContainsAny(name, "/\x00")) ||
				strings.HasPrefix(name, ".") {
				t.Errorf("path %q", file.Path)
			}
		}
	})
}
