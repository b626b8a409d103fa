package generation

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
)

// counting counts the files that are opened.
type counting struct {
	fs.FS
	opened []string
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened = append(c.opened, name)
	return c.FS.Open(name)
}

func (c *counting) ReadLink(name string) (string, error)   { return fs.ReadLink(c.FS, name) }
func (c *counting) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }

func TestImageIsReadOnce(t *testing.T) {
	_, root := newStore(t)
	for _, dir := range []string{
		"usr/lib/systemd/system/multi-user.target.wants", "etc/systemd/system",
	} {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	err := root.WriteFile("usr/lib/systemd/system/a.service", []byte("[Service]\n"), 0o644)
	if err != nil {
		t.Fatal(err)
	}

	image := &counting{FS: root.FS()}
	catalog := NewCatalog(image)
	d := config.Desired{Units: []config.Unit{{Name: "a.service"}, {Name: "absent.service"}}}
	for i := range 2 {
		image.opened = nil
		v, err := catalog.Read(d)
		if err != nil || v.Texts["a.service"] != "[Service]\n" {
			t.Fatalf("%q, %v", v.Texts, err)
		}
		if i > 0 && len(image.opened) > 0 {
			t.Errorf("read again: %q", image.opened)
		}
	}
}

func TestStoreCachesTheNextNumber(t *testing.T) {
	s, root := newStore(t)
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}

	seen := &counting{FS: root.FS()}
	s.fsys = seen

	for want := 1; want <= 3; want++ {
		seen.opened = nil
		if number, err := s.Next(); err != nil || number != want || len(seen.opened) > 0 {
			t.Errorf("next is %d, want %d; %v; opened %q", number, want, err, seen.opened)
		}
		add(t, s, "1.0.0", strings.Repeat("x", want))
	}

	if err := s.Prune(1); err != nil {
		t.Fatal(err)
	}

	kept := names(t, root, generationsDir)
	if len(kept) != 1 || !strings.HasPrefix(kept[0], "000003-") {
		t.Errorf("kept %q", kept)
	}

	fresh, err := Read(root.FS()).Next()
	if known, knownErr := s.Next(); err != nil || knownErr != nil || fresh != known {
		t.Errorf("next is %d, %v; to who looks, it is %d, %v", known, knownErr, fresh, err)
	}
}

func TestDamagedOfReadsOnlyItsWays(t *testing.T) {
	s, root := newStore(t)
	m := add(t, s, "1.0.0", "one")
	seen := &counting{FS: root.FS()}
	s.fsys = seen

	current := path.Join(Dir, "os/1.0.0/current")
	if bad := s.DamagedOf(m, []string{current}); len(bad) > 0 || len(seen.opened) > 0 {
		t.Errorf("the flip: damaged %v, opened %q", bad, seen.opened)
	}

	// Any kind of change to a way is found.
	for _, e := range m.Entries {
		way := path.Join(Dir, contentName(e))
		if bad := s.DamagedOf(m, []string{way}); len(bad) > 0 {
			t.Errorf("%s: damaged %v", way, bad)
		}
		if err := root.WriteFile(contentName(e), []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		if bad := s.DamagedOf(m, []string{way}); len(bad) != 1 || bad[0] != e {
			t.Errorf("%s: damaged %v, want %v", way, bad, e)
		}
	}

	for _, tree := range trees(m.Entries) {
		for name := range tree.dirs {
			link := path.Join(treeDir, tree.digest, name)
			if err := root.Remove(link); err != nil {
				t.Fatal(err)
			}
			if bad := s.DamagedOf(m, []string{path.Join(Dir, link)}); len(bad) != len(m.Entries) {
				t.Errorf("%s: damaged %v", link, bad)
			}
		}
	}
}

// Deletes an object that only an older generation has, which nothing watches
// and the next generation would use.
func TestDeletedObjectsAreWrittenAgain(t *testing.T) {
	files := func(number int, texts map[string]string) (Manifest, map[string]config.Content) {
		var d config.Desired
		for name, text := range texts {
			d.Files = append(d.Files,
				config.File{Path: name, Mode: 0o644, Content: config.Text(text)})
		}

		tree, err := Expand(d, Vendor{})
		if err != nil {
			t.Fatal(err)
		}

		return Manifest{
			Number:    number,
			Digest:    d.Digest(),
			OSVersion: "1",
			Entries:   tree.Entries,
		}, tree.Content
	}

	texts := []map[string]string{
		{"/etc/a/x": "one", "/etc/b/y": "stays"},
		{"/etc/a/x": "two", "/etc/b/y": "stays"},
		{"/etc/a/x": "three", "/etc/a/z": "one", "/etc/b/y": "stays"},
	}

	first, _ := files(1, texts[0])
	lost := []string{contentName(first.Entries[0])}
	for _, tree := range trees(first.Entries) {
		if tree.dirs["b"] != "" {
			lost = append(lost, path.Join(treeDir, tree.digest, "b"),
				path.Join(treeDir, tree.digest))
		}
	}

	for _, name := range lost {
		t.Run(name, func(t *testing.T) {
			s, root := newStore(t)
			if err := s.Sweep(); err != nil {
				t.Fatal(err)
			}

			for i, has := range texts {
				m, content := files(i+1, has)
				if i == 2 {
					if err := root.RemoveAll(name); err != nil {
						t.Fatal(err)
					}
				}

				if err := s.Write(m, content); err != nil {
					t.Fatal(err)
				}
				if bad := s.Damaged(m); len(bad) > 0 {
					t.Errorf("damaged: %v", bad)
				}
				if err := s.Activate("1", m.Name()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
