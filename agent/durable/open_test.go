package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
)

// listed returns the names of a tree, with the content of its files.
func listed(t *testing.T, root *os.Root) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			all[name] = entry.Type().String()
			return err
		}
		text, err := root.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNothingFollowsALink(t *testing.T) {
	line := func() *strings.Reader { return strings.NewReader("new\n") }
	batch := func(do func(*durable.Batch) error) func(*durable.Dir) error {
		return func(d *durable.Dir) error {
			b := d.Batch()
			defer b.Close()
			return do(b)
		}
	}

	for name, do := range map[string]func(*durable.Dir) error{
		"write": func(d *durable.Dir) error {
			_, err := d.WriteFile("link/a", []byte("new\n"), 0o644)
			return err
		},
		"write volatile": func(d *durable.Dir) error {
			return d.WriteVolatile("link/a", []byte("new\n"), 0o644)
		},
		"write below": func(d *durable.Dir) error {
			return d.WriteFrom("link/sub/new", line(), 0o644)
		},
		"symlink": func(d *durable.Dir) error {
			_, err := d.Symlink("new", "link/a")
			return err
		},
		"append":       func(d *durable.Dir) error { return d.Append("link/a", []byte("new"), 0o644) },
		"remove":       func(d *durable.Dir) error { return d.Remove("link/a") },
		"remove all":   func(d *durable.Dir) error { return d.RemoveAll("link/sub") },
		"discard":      func(d *durable.Dir) error { return d.Discard("link/a") },
		"move out":     func(d *durable.Dir) error { return d.Move("link/a", "b") },
		"move in":      func(d *durable.Dir) error { return d.Move("own", "link/b") },
		"mkdir":        func(d *durable.Dir) error { return d.MkdirAll("link/new") },
		"mkdir twice":  func(d *durable.Dir) error { return d.MkdirAll("link/new/dir") },
		"mkdir of it":  func(d *durable.Dir) error { return d.MkdirAll("link") },
		"mkdir, loose": func(d *durable.Dir) error { return d.MkdirAll("dangling/new") },
		"sync":         func(d *durable.Dir) error { return d.SyncDir("link/sub") },
		"reach":        func(d *durable.Dir) error { return d.Reach("link/sub/absent") },
		"partial": func(d *durable.Dir) error {
			_, err := d.Partial("link/b", 1, 0o644)
			return err
		},
		"batch, file": batch(func(b *durable.Batch) error {
			return b.File("link/b", line(), 0o644)
		}),
		"batch, mkdir":   batch(func(b *durable.Batch) error { return b.Mkdir("link/b") }),
		"batch, link":    batch(func(b *durable.Batch) error { return b.Link("own", "link/b") }),
		"batch, symlink": batch(func(b *durable.Batch) error { return b.Symlink("own", "link/b") }),
	} {
		t.Run(name, func(t *testing.T) {
			root := open(t)
			files.Write(t, root.Name()+"/own", "own\n")
			files.Write(t, root.Name()+"/away/a", "old\n")
			files.Write(t, root.Name()+"/away/sub/b", "old\n")
			files.Write(t, root.Name()+"/away/.ca978112ca1bbdca.loam-new", "of a write of a\n")
			err := errors.Join(root.Symlink("away", "link"), root.Symlink("absent", "dangling"))
			if err != nil {
				t.Fatal(err)
			}
			before := listed(t, root)

			err = do(durable.New(root, nil))
			if link, ok := errors.AsType[*durable.LinkError](err); !ok {
				t.Errorf("error %v", err)
			} else if link.Dir != "link" && link.Dir != "dangling" {
				t.Errorf("the link is %s", link.Dir)
			}
			if diff := cmp.Diff(before, listed(t, root)); diff != "" {
				t.Errorf("changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestLinksOfTheImage writes dir/a, and says where that is.
func TestLinksOfTheImage(t *testing.T) {
	type links map[string]string
	for _, tt := range []struct {
		name             string
		image, node      links
		dir, want, fault string
	}{
		{"none", nil, nil, "var/x", "var/x", ""},
		{"beside", links{"opt": "var/opt"}, links{"opt": "var/opt"}, "opt/x", "var/opt/x", ""},
		{
			"above", links{"usr/local": "../var/usrlocal"},
			links{"usr/local": "../var/usrlocal/"}, "usr/local/bin", "var/usrlocal/bin", "",
		},
		{"from the root", links{"opt": "/var/opt"}, links{"opt": "/var/opt"}, "opt", "var/opt", ""},
		{"above the root", links{"opt": "../../var"}, links{"opt": "../../var"}, "opt", "var", ""},
		{
			"of a link", links{"opt": "a/opt", "a": "b"}, links{"opt": "a/opt", "a": "b"},
			"opt/x", "b/opt/x", "",
		},
		{"a directory on the node", links{"opt": "var/opt"}, nil, "opt", "opt", ""},
		{"to somewhere else", links{"opt": "var/opt"}, links{"opt": "etc"}, "opt", "", "opt"},
		{
			"and another behind it", links{"opt": "var/opt"},
			links{"opt": "var/opt", "var/opt": "../etc"}, "opt/x", "", "var/opt",
		},
		{"to itself", links{"opt": "opt"}, links{"opt": "opt"}, "opt", "", "opt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := open(t)
			image := open(t)
			for tree, links := range map[*os.Root]links{root: tt.node, image: tt.image} {
				err := errors.Join(tree.Mkdir("etc", 0o755), tree.Mkdir("usr", 0o755),
					tree.Mkdir("var", 0o755))
				for name, target := range links {
					err = errors.Join(err, tree.Symlink(target, name))
				}
				if err != nil {
					t.Fatal(err)
				}
			}

			dir := durable.New(root, nil).WithImage(image.FS())
			err := dir.MkdirAll(tt.dir)
			if err == nil {
				_, err = dir.WriteFile(tt.dir+"/a", []byte("text"), 0o600)
			}

			if tt.fault != "" {
				link, ok := errors.AsType[*durable.LinkError](err)
				if !ok || link.Dir != tt.fault {
					t.Errorf("error %v, want one of %s", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if info, err := root.Lstat(tt.want + "/a"); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}
