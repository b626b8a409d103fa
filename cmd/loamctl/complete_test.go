package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuildsAreOffered(t *testing.T) {
	dir := tree(t, map[string]string{
		"build/amd64-cloud/manifest.json":         "{}",
		"build/judges/env":                        "",
		"build/release/amd64-metal/manifest.json": "{}",
		"mine/manifest.json":                      "{}",
		"docs/page.md":                            "",
	})
	want := []string{"build/amd64-cloud", "build/release/amd64-metal", "mine"}
	if diff := cmp.Diff(want, builds(dir)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

func TestDisksAreOffered(t *testing.T) {
	found := disks(os.DirFS(tree(t, map[string]string{
		"proc/self/mountinfo":         "",
		"sys/block/sda/size":          "2097152\n",
		"sys/block/sda/device/model":  "FAST 1\n",
		"sys/block/sda/device/serial": "S1\n",
		"sys/block/vda/size":          "2097152\n",
		"sys/block/sdb/size":          "0\n", // a reader without a card
		"sys/block/loop0/size":        "1000\n",
		"sys/block/dm-0/size":         "1000\n",
		"sys/block/nbd0/size":         "1000\n",
	})))
	for name, test := range map[string]struct{ have, want []string }{
		"devices": {devices(found), []string{
			"/dev/sda\t/dev/sda (FAST 1, 1 GiB, serial number S1)",
			"/dev/vda\t/dev/vda (unknown model, 1 GiB, without a serial number)",
		}},
		"serial numbers": {serials(found), []string{
			"S1\t/dev/sda (FAST 1, 1 GiB, serial number S1)",
			"/dev/vda\t/dev/vda (unknown model, 1 GiB, without a serial number)",
		}},
	} {
		if diff := cmp.Diff(test.want, test.have); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestVersionsAreOffered(t *testing.T) {
	repository := tree(t, map[string]string{
		"targets/1.a_0.2.0_x86-64.index.json": `{"version": "0.2.0"}`,
		"targets/2.a_0.2.0_arm64.index.json":  `{"version": "0.2.0"}`,
		"targets/3.a_0.1.0_x86-64.index.json": `{"version": "0.1.0"}`,
		"targets/4.broken.index.json":         `{`,
	})
	if diff := cmp.Diff([]string{"0.1.0", "0.2.0"}, versions(repository)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestArgumentsAreCompleted asks the commands as a shell does.
func TestArgumentsAreCompleted(t *testing.T) {
	t.Chdir(tree(t, map[string]string{
		"build/amd64-cloud/manifest.json":             "{}",
		"updates/targets/1.a_0.2.0_x86-64.index.json": `{"version": "0.2.0"}`,
		"admin.conf": "contexts: [{name: plant}, {name: office}]",
	}))
	t.Setenv("KUBECONFIG", "admin.conf")

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"flash", ""}, "build/amd64-cloud\n:0\n"},
		{[]string{"verify", ""}, "build/amd64-cloud\n:0\n"},
		{
			[]string{"permit", "--repository", "updates", "--version", ""},
			"0.2.0\n:4\n",
		},
		{[]string{"serve", "updates", "--boot", ""}, "build/amd64-cloud\n:0\n"},
		{[]string{"build", "--profile", ""}, "cloud\nmetal\n:4\n"},
		{[]string{"build", "--sector-size", ""}, "512\n4096\n:4\n"},
		{[]string{"flash", "--machine", ""}, "yaml\nyml\n:8\n"},
		{[]string{"sign", "--enroll-when", ""}, "if-safe\nmanual\nforce\n:4\n"},
		{[]string{"rollout", "status", "-o", ""}, "text\njson\n:4\n"},
		{[]string{"osc", "validate", "-o", ""}, "text\njson\n:4\n"},
		{[]string{"version", "-o", ""}, "text\njson\n:4\n"},
		{[]string{"verify", "-o", ""}, "text\njson\n:4\n"},
		{[]string{"rollout", "status", "--context", ""}, "office\nplant\n:4\n"},
		{[]string{"rollout", "status", "--kubeconfig", "none", "--context", ""}, ":4\n"},
		{[]string{"rollout", "pause", "--reason", ""}, ":4\n"},
		{[]string{"rollout", "pause", ""}, ":4\n"},
		{[]string{"build", "--update-packages="}, "never\nmissing\nalways\n:4\n"},
		{[]string{"build", "--out", ""}, ":16\n"},
		{[]string{"build", "--sums-key", ""}, ":0\n"},
		{[]string{"build", ""}, ":4\n"},
		{[]string{"keys", "--db", ""}, "pem\ncrt\ncer\nder\n:8\n"},
		{[]string{"publish", ""}, ":16\n"},
		{[]string{"machine", "validate", ""}, "yaml\nyml\n:8\n"},
		{[]string{"verify", "build/amd64-cloud", "--vulnerabilities", ""}, "zip\njson\n:8\n"},
		{[]string{"schema", ""}, "machine\nosc\n:4\n"},
	} {
		out, err := loamctl(t, append([]string{"__complete"}, test.args...)...)
		if err != nil || out != test.want {
			t.Errorf("%q: %q, %v, want %q", test.args, out, err, test.want)
		}
	}
}
