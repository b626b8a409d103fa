package generation

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
)

func newStore(t *testing.T) (*Store, *os.Root) {
	t.Helper()
	root := files.Root(t)
	return Open(durable.New(root, nil)), root
}

// add writes and activates a generation with one file that contains text, and
// one that never changes.
func add(t *testing.T, s *Store, osVersion, text string) Manifest {
	t.Helper()
	d := config.Desired{Files: []config.File{
		{Path: "/etc/a/changes", Mode: 0o644, Content: config.Text(text)},
		{Path: "/etc/stays", Mode: 0o755, Content: config.Text("stays")},
	}}

	tree, err := Expand(d, Vendor{})
	if err != nil {
		t.Fatal(err)
	}

	number, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}

	m := Manifest{
		Number:    number,
		Digest:    d.Digest(),
		OSVersion: osVersion,
		Source:    "test",
		Entries:   tree.Entries,
		Units:     tree.Units,
	}
	if err := s.Write(m, tree.Content); err != nil {
		t.Fatal(err)
	}
	if err := s.Activate(osVersion, m.Name()); err != nil {
		t.Fatal(err)
	}

	return m
}

func names(t *testing.T, root *os.Root, dir string) []string {
	t.Helper()
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}

	return names
}

func TestWriteAndRead(t *testing.T) {
	s, root := newStore(t)
	if _, ok, err := s.Current("1"); ok || err != nil {
		t.Errorf("a new store has a current generation: %v %v", ok, err)
	}

	first := add(t, s, "1", "one")
	second := add(t, s, "1", "two")
	if first.Number != 1 || second.Number != 2 {
		t.Errorf("numbers %d, %d", first.Number, second.Number)
	}

	got, ok, err := s.Current("1")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}

	diff := cmp.Diff(second, got, cmp.Comparer(func(a, b []Unit) bool { return len(a) == len(b) }))
	if diff != "" {
		t.Errorf("current (-want +got):\n%s", diff)
	}

	if content := names(t, root, contentDir); len(content) != 3 {
		t.Errorf("content that both have is there twice: %v", content)
	}

	if text, err := root.ReadFile("os/1/current/root/etc/a/changes"); err != nil ||
		string(text) != "two" {
		t.Errorf("through the flip: %q %v", text, err)
	}

	if bad := s.Damaged(second); bad != nil {
		t.Error(bad)
	}
	if err := root.WriteFile("os/1/current/root/etc/a/changes", []byte("bad"), 0o644); err != nil {
		t.Fatal(err)
	}
	if bad := s.Damaged(second); len(bad) != 1 || bad[0].Path != "/etc/a/changes" {
		t.Errorf("changed content passes the check: %v", bad)
	}

	add(t, s, "1", "two") // finds the store's copy changed and writes it again
	if current, _, _ := s.Current("1"); s.Damaged(current) != nil {
		t.Errorf("content that was changed in the store is used again: %v", s.Damaged(current))
	}
}

func TestCorruptManifestIsNoGeneration(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"number":7,"digest":"0123456789abcdef"}`} {
		s, root := newStore(t)
		first := add(t, s, "1", "one")
		second := add(t, s, "1", "two")
		err := root.WriteFile("generations/"+second.Name()+"/manifest.json", []byte(text), 0o644)
		if err != nil {
			t.Fatal(err)
		}

		if _, ok, err := s.Current("1"); ok || !errors.Is(err, ErrIncomplete) {
			t.Errorf("manifest %q: current is %v, %v", text, ok, err)
		}
		if list, err := s.List(); err != nil || !slices.Equal(list, []string{first.Name()}) {
			t.Errorf("manifest %q: list %v, %v", text, list, err)
		}
		if again := add(t, s, "1", "two"); again.Name() != second.Name() {
			t.Errorf("manifest %q: written again as %s", text, again.Name())
		}
	}
}

func TestRefusesNamesThatLeaveTheTree(t *testing.T) {
	s, _ := newStore(t)
	if _, err := s.Load("../../etc"); err == nil {
		t.Error("a generation outside of the tree was read")
	}
	m := Manifest{Number: 1, Digest: "0123456789abcdef", OSVersion: "../x"}
	if err := s.Write(m, nil); err == nil {
		t.Error("a generation of an OS version outside of the tree was written")
	}
}

func TestPrune(t *testing.T) {
	s, root := newStore(t)
	old := add(t, s, "1", "of the old OS")
	add(t, s, "2", "one")
	add(t, s, "2", "two")
	last := add(t, s, "2", "three")

	if err := root.MkdirAll("generations/000009-0123456789ab/root", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(1); err != nil {
		t.Fatal(err)
	}

	diff := cmp.Diff([]string{old.Name(), last.Name()}, names(t, root, generationsDir))
	if diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}

	if content := names(t, root, contentDir); len(content) != 3 {
		t.Errorf("content: %v", content)
	}

	for _, m := range []Manifest{old, last} {
		if bad := s.Damaged(m); bad != nil {
			t.Error(bad)
		}
	}
}

func TestVendorOfAnImage(t *testing.T) {
	_, root := newStore(t)
	for name, text := range map[string]string{
		"usr/lib/systemd/system/a.service": "[Install]\n" +
			"Also=b.socket\n",
		"usr/lib/systemd/system/b.socket":      "socket",
		"usr/lib/systemd/system/c@.service":    "template",
		"usr/lib/systemd/system/other.service": "not asked for",
		"usr/lib/systemd/system/enabled.socket": "[Socket]\n" +
			"Service=a.service\n",
		"usr/lib/systemd/system/idle.timer":                            "[Timer]\nUnit=a.service\n",
		"usr/lib/systemd/system/sockets.target.wants/enabled.socket":   "",
		"usr/lib/systemd/system/multi-user.target.wants/a.service":     "",
		"usr/lib/systemd/system/multi-user.target.wants/other.service": "",
	} {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	err := root.Symlink("/usr/lib/systemd/system/a.service", "usr/lib/systemd/system/alias.service")
	if err != nil {
		t.Fatal(err)
	}

	units := []config.Unit{
		{Name: "a.service"},
		{Name: "c@x.service"},
		{Name: "alias.service"},
		{Name: "absent.service"},
	}

	got, err := ReadVendor(root.FS(), config.Desired{Units: units})
	if err != nil {
		t.Fatal(err)
	}

	want := Vendor{
		Texts: map[string]string{
			"a.service": "[Install]\n" +
				"Also=b.socket\n",
			"b.socket":       "socket",
			"c@.service":     "template",
			"alias.service":  "[Install]\nAlso=b.socket\n",
			"enabled.socket": "[Socket]\nService=a.service\n",
		},
		Paths: map[string]string{
			"a.service":      "/usr/lib/systemd/system/a.service",
			"b.socket":       "/usr/lib/systemd/system/b.socket",
			"c@.service":     "/usr/lib/systemd/system/c@.service",
			"alias.service":  "/usr/lib/systemd/system/alias.service",
			"enabled.socket": "/usr/lib/systemd/system/enabled.socket",
		},
		Masked: map[string]bool{},
		Links: []string{
			"multi-user.target.wants/a.service", "sockets.target.wants/enabled.socket",
		},
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("vendor (-want +got):\n%s", diff)
	}
}

func TestManifestIsForRootOnly(t *testing.T) {
	s, root := newStore(t)
	info, err := root.Lstat(path.Join(generationsDir, add(t, s, "1", "one").Name(), manifestName))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("manifest: %v %v", info.Mode(), err)
	}
}

func TestDamagedGenerationsAreIncomplete(t *testing.T) {
	s, root := newStore(t)
	old := add(t, s, "1", "one")
	last := add(t, s, "1", "two")

	err := errors.Join(root.RemoveAll(path.Join(generationsDir, old.Name(), rootName)),
		root.WriteFile("os/stray", nil, 0o644),
		root.WriteFile(generationsDir+"/000009-0123456789ab", nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{
		old.Name(), "no-name", "000009-0123456789ab", "000008-0123456789ab",
	} {
		if _, err := s.Load(name); !errors.Is(err, ErrIncomplete) {
			t.Errorf("load %s: %v", name, err)
		}
	}

	if err := s.Prune(1); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{last.Name()}, names(t, root, generationsDir)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
}

func TestGenerationsShareUnchangedDirectories(t *testing.T) {
	s, root := newStore(t)
	first := add(t, s, "1", "one")
	before := names(t, root, treeDir)
	add(t, s, "1", "two")

	// Only the root, /etc and /etc/a are new.
	if after := names(t, root, treeDir); len(before) != 3 || len(after) != 6 {
		t.Errorf("directories: %v, then %v", before, after)
	}

	err := errors.Join(root.RemoveAll(path.Join(treeDir, trees(first.Entries)[0].digest)), nil)
	if bad := s.Damaged(first); err != nil || len(bad) != 2 {
		t.Errorf("damage of a directory: %v %v", bad, err)
	}

	content := map[string]config.Content{}
	for _, text := range []string{"one", "stays"} {
		content[config.Text(text).Digest] = config.Text(text)
	}

	if err := s.Repair(first, content); err != nil || s.Damaged(first) != nil {
		t.Errorf("repaired: %v %v", err, s.Damaged(first))
	}
}

func TestWriteChecksContentAndLeavesNothing(t *testing.T) {
	s, root := newStore(t)
	add(t, s, "1", "one")
	before := len(names(t, root, contentDir)) + len(names(t, root, treeDir))
	wrong := config.Stream(config.Text("x").Digest, 1, config.Text("y").Open)
	m := Manifest{
		Number:    2,
		Digest:    config.Text("").Digest,
		OSVersion: "1",
		Entries: []Entry{
			{
				Path:   "/etc/x",
				Kind:   KindFile,
				Mode:   0o644,
				Digest: wrong.Digest,
				Size:   1,
			},
		},
	}

	err := s.Write(m, map[string]config.Content{wrong.Digest: wrong})
	if !errors.Is(err, errContent) {
		t.Errorf("content that does not match its digest: %v", err)
	}

	if after := len(names(t, root, contentDir)) + len(names(t, root, treeDir)); after != before {
		t.Errorf("%d objects, %d before", after, before)
	}
}

func TestReferences(t *testing.T) {
	m := Manifest{Number: 42, Digest: strings.Repeat("0a", 32)}
	for text, want := range map[string]struct{ valid, is bool }{
		"42":                  {true, true},
		"000042":              {true, true},
		"000042-0a0a0a0a0a0a": {true, true},
		"41":                  {true, false},
		"000042-0b0b0b0b0b0b": {true, false},
		"":                    {},
		"x":                   {},
		"-1":                  {},
		"+42":                 {},
		"4 2":                 {},
		"000042-":             {},
		"000042-0a":           {},
		"9999999999":          {},
	} {
		valid := IsReference(text)
		if valid != want.valid || (valid && m.Is(text) != want.is) {
			t.Errorf("%q: valid %v, is %v, want %+v", text, valid, m.Is(text), want)
		}
	}
}
