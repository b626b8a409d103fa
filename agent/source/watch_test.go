package source_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/source"
)

// Each row makes a directory, watches dir/conf/file in it, and changes
// something. The test ends when the file has the wanted text, which it reads
// only after a notice.
func TestWatch(t *testing.T) {
	rename := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}

	link := func(t *testing.T, target, path string) {
		t.Helper()
		if err := os.Symlink(target, path+".new"); err != nil {
			t.Fatal(err)
		}
		rename(t, path+".new", path)
	}

	for _, test := range []struct {
		name           string
		before, change func(t *testing.T, dir string)
		want           string
	}{
		{
			name:   "written in place",
			before: func(t *testing.T, dir string) { write(t, dir+"/conf/file", "old") },
			change: func(t *testing.T, dir string) { write(t, dir+"/conf/file", "new") },
			want:   "new",
		},
		{
			name:   "replaced by rename",
			before: func(t *testing.T, dir string) { write(t, dir+"/conf/file", "old") },
			change: func(t *testing.T, dir string) {
				rename(t, write(t, dir+"/conf/tmp", "new"), dir+"/conf/file")
			},
			want: "new",
		},
		{
			name:   "deleted",
			before: func(t *testing.T, dir string) { write(t, dir+"/conf/file", "old") },
			change: func(t *testing.T, dir string) {
				if err := os.RemoveAll(dir + "/conf"); err != nil {
					t.Fatal(err)
				}
			},
			want: "",
		},
		{
			name:   "created with its directory",
			before: func(*testing.T, string) {},
			change: func(t *testing.T, dir string) { write(t, dir+"/conf/file", "new") },
			want:   "new",
		},
		{
			name:   "the directory is replaced",
			before: func(t *testing.T, dir string) { write(t, dir+"/conf/file", "old") },
			change: func(t *testing.T, dir string) {
				write(t, dir+"/other/file", "new")
				rename(t, dir+"/conf", dir+"/gone")
				rename(t, dir+"/other", dir+"/conf")
			},
			want: "new",
		},
		{
			name: "a link to the directory is redirected",
			before: func(t *testing.T, dir string) {
				write(t, dir+"/a/file", "old")
				write(t, dir+"/b/file", "new")
				link(t, "a", dir+"/conf")
			},
			change: func(t *testing.T, dir string) { link(t, "b", dir+"/conf") },
			want:   "new",
		},
		{
			name: "the target of a link is written",
			before: func(t *testing.T, dir string) {
				write(t, dir+"/data/file", "old")
				write(t, dir+"/conf/x", "")
				link(t, "../data/file", dir+"/conf/file")
			},
			change: func(t *testing.T, dir string) { write(t, dir+"/data/file", "new") },
			want:   "new",
		},
		{
			name: "the target of a link appears",
			before: func(t *testing.T, dir string) {
				write(t, dir+"/conf/x", "")
				link(t, filepath.Join(dir, "data", "file"), dir+"/conf/file")
			},
			change: func(t *testing.T, dir string) { write(t, dir+"/data/file", "new") },
			want:   "new",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.before(t, dir)
			file := source.File{Path: dir + "/conf/file"}
			ctx, cancel := context.WithCancel(t.Context())
			changes, err := file.Watch(ctx)
			if err != nil {
				t.Fatal(err)
			}

			test.change(t, dir)
			for range changes {
				if got, _ := file.Read(ctx); string(got.Text) == test.want {
					break
				}
			}

			cancel()
			for range changes { // Ends after the watcher.
			}
		})
	}
}

// A link to itself leads nowhere, and the watch ends.
func TestWatchLinkLoop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", path); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	changes, err := source.File{Path: path}.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}

	write(t, path+".new", "new")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if _, open := <-changes; !open {
		t.Error("the watcher gave up")
	}

	cancel()
	for range changes {
	}
}

// TestWatchDirectories makes a directory and a file in it as networkd does, and
// ends when the file has the wanted text, which it reads only after a notice.
func TestWatchDirectories(t *testing.T) {
	for _, test := range []struct {
		name           string
		before, change func(t *testing.T, dir string)
	}{
		{
			name:   "a file is replaced",
			before: func(t *testing.T, dir string) { write(t, dir+"/links/2", "old") },
			change: func(t *testing.T, dir string) {
				if err := os.Rename(write(t, dir+"/links/.#2", "new"), dir+"/links/2"); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name:   "the directories are made",
			before: func(*testing.T, string) {},
			change: func(t *testing.T, dir string) { write(t, dir+"/links/2", "new") },
		},
		{
			name: "the directory is made again",
			before: func(t *testing.T, dir string) {
				write(t, dir+"/links/2", "old")
			},
			change: func(t *testing.T, dir string) {
				if err := os.RemoveAll(dir + "/links"); err != nil {
					t.Fatal(err)
				}
				write(t, dir+"/links/2", "new")
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "netif")
			test.before(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			changes, err := source.Directories{dir + "/links", dir + "/leases"}.Watch(ctx)
			if err != nil {
				t.Fatal(err)
			}

			test.change(t, dir)
			for range changes {
				if got, _ := os.ReadFile(dir + "/links/2"); string(got) == "new" {
					break
				}
			}

			cancel()
			for range changes { // Ends after the watcher.
			}
		})
	}
}
