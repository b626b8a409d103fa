package boot

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/test/files"
)

// TestFillEtc: a path that cannot be placed does not keep the others away.
func TestFillEtc(t *testing.T) {
	root := files.Root(t)

	for _, dir := range []string{"var/lib/loam", "etc/b/in-the-way"} {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	state, err := root.OpenRoot("var/lib/loam")
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()

	store := generation.Open(durable.New(state, nil))
	d := config.Desired{Files: []config.File{
		{Path: "/etc/a", Mode: 0o644, Content: config.Text("a")},
		{Path: "/etc/b", Mode: 0o644, Content: config.Text("b")},
		{Path: "/etc/kubernetes/c", Mode: 0o600, Content: config.Text("c")},
		{Path: "/var/d", Mode: 0o644, Content: config.Text("d")},
	}}

	tree, err := generation.Expand(d, generation.Vendor{})
	if err != nil {
		t.Fatal(err)
	}

	m := generation.Manifest{
		Number:    1,
		Digest:    d.Digest(),
		OSVersion: "1",
		Entries:   tree.Entries,
	}
	if err := store.Write(m, tree.Content); err != nil {
		t.Fatal(err)
	}
	if err := store.Activate("1", m.Name()); err != nil {
		t.Fatal(err)
	}

	name, err := fillEtc(root, store.Reader, "1")
	if name != m.Name() || err == nil || !strings.Contains(err.Error(), "/etc/b") {
		t.Errorf("%s, %v", name, err)
	}

	if target, err := root.Readlink("etc/a"); err != nil ||
		target != "/run/loam/current/root/etc/a" {
		t.Errorf("a link: %s %v", target, err)
	}

	if text, err := root.ReadFile("etc/kubernetes/c"); err != nil || string(text) != "c" {
		t.Errorf("a real file after the bad path: %q %v", text, err)
	}
	if _, err := root.Lstat("var/d"); err == nil {
		t.Error("a file outside of /etc was placed")
	}
}

// TestANodeFindsItsOwnName: before any service starts.
func TestANodeFindsItsOwnName(t *testing.T) {
	root := files.Root(t)
	for name, text := range map[string]string{
		HostnameFile: "node-1\n",
		"etc/hosts":  "127.0.0.1\tlocalhost\n",
	} {
		files.Write(t, filepath.Join(root.Name(), name), text)
	}
	for range 2 {
		if err := setHostname(root); err != nil {
			t.Fatal(err)
		}
	}

	want := "127.0.0.1\tlocalhost\n127.0.1.1\tnode-1\n"
	if text, err := root.ReadFile("etc/hosts"); err != nil || string(text) != want {
		t.Errorf("hosts %q, %v, want %q", text, err, want)
	}

	// An image may have no such file.
	if err := root.Remove("etc/hosts"); err != nil {
		t.Fatal(err)
	}
	if err := setHostname(root); err != nil {
		t.Error(err)
	}
}

// TestARecordedNameThatIsNone: a file that a power cut or an older version left.
func TestARecordedNameThatIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"node-1\n":    "node-1\n",
		"Node-1.\n":   "node-1\n",
		"localhost\n": "",
		"10.0.0.7":    "",
		"\x00\x00\n":  "",
		"":            "",
	} {
		root := files.Root(t)
		files.Write(t, filepath.Join(root.Name(), HostnameFile), text)
		files.Write(t, filepath.Join(root.Name(), "etc/hosts"), "")
		if err := setHostname(root); err != nil {
			t.Fatal(err)
		}
		if got, _ := root.ReadFile("etc/hostname"); string(got) != want {
			t.Errorf("recorded %q: /etc/hostname is %q, want %q", text, got, want)
		}
	}
}
