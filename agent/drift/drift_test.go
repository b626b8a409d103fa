package drift_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/drift"
)

// sentinel is a managed path that a test changes last. Events come in the order
// of the changes, so all reports come before the sentinel's.
const sentinel = "/sentinel/file"

// tree is a root directory for a test.
type tree struct {
	*testing.T
	root string
}

func (tr tree) must(err error) {
	tr.Helper()
	if err != nil {
		tr.Fatal(err)
	}
}

func (tr tree) write(name, text string) {
	tr.Helper()
	tr.must(os.MkdirAll(filepath.Dir(tr.root+name), 0o755))
	tr.must(os.WriteFile(tr.root+name, []byte(text), 0o644))
}

func (tr tree) rename(from, to string) { tr.Helper(); tr.must(os.Rename(tr.root+from, tr.root+to)) }

func (tr tree) link(target, name string) { tr.Helper(); tr.must(os.Symlink(target, tr.root+name)) }

func (tr tree) remove(name string) { tr.Helper(); tr.must(os.RemoveAll(tr.root + name)) }

// watch watches the managed paths of the tree, and the sentinel.
func (tr tree) watch(paths ...string) *drift.Watcher {
	tr.Helper()
	tr.write(sentinel, "")
	w := drift.New()

	tr.Cleanup(func() {
		if err := w.Close(); err != nil {
			tr.Errorf("Close: %v", err)
		}
	})

	tr.must(w.Set(tr.root, append(paths, sentinel)))
	return w
}

// changed returns what w has reported so far.
func (tr tree) changed(w *drift.Watcher) []string {
	tr.Helper()
	tr.write(sentinel, "again")

	all := map[string]bool{}
	for !all[sentinel] {
		for _, name := range next(tr.T, w) {
			all[name] = true
		}
	}

	delete(all, sentinel)
	return slices.Sorted(maps.Keys(all))
}

func next(t *testing.T, w *drift.Watcher) []string {
	t.Helper()
	select {
	case paths, open := <-w.Events():
		if !open {
			t.Fatal("the watcher ended")
		}
		return paths
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	return nil
}

// Each row has the managed files /etc/app/a and /etc/app/conf.d/b and the
// managed link /etc/link; /etc/missing/c is managed and does not exist.
func TestChanges(t *testing.T) {
	const a, b, c, link = "/etc/app/a", "/etc/app/conf.d/b", "/etc/missing/c", "/etc/link"
	for _, test := range []struct {
		name   string
		change func(tr tree)
		want   []string
	}{
		{
			name: "content changed in place",
			change: func(tr tree) {
				tr.write(a, "other")
			},
			want: []string{a},
		},
		{
			name: "replaced by rename",
			change: func(tr tree) {
				tr.write("/etc/app/x", "new")
				tr.rename("/etc/app/x", a)
			},
			want: []string{a},
		},
		{name: "removed", change: func(tr tree) { tr.remove(b) }, want: []string{b}},
		{name: "moved away", change: func(tr tree) { tr.rename(b, "/b") }, want: []string{b}},
		{
			name: "another mode",
			change: func(tr tree) {
				tr.must(os.Chmod(tr.root+a, 0o600))
			},
			want: []string{a},
		},
		{
			name: "another owner",
			change: func(tr tree) {
				tr.must(os.Chown(tr.root+a, os.Getuid(), os.Getgid()))
			},
			want: []string{a},
		},
		{
			name: "link turned",
			change: func(tr tree) {
				tr.remove(link)
				tr.link("elsewhere", link)
			},
			want: []string{link},
		},
		{
			name: "replaced by a directory",
			change: func(tr tree) {
				tr.remove(a)
				tr.must(os.Mkdir(tr.root+a, 0o755))
			},
			want: []string{a},
		},
		{
			name: "directory removed",
			change: func(tr tree) {
				tr.remove("/etc/app")
			},
			want: []string{a, b},
		},
		{
			name: "directory moved away",
			change: func(tr tree) {
				tr.rename("/etc/app", "/x")
			},
			want: []string{a, b},
		},
		{
			name: "directory two above moved away",
			change: func(tr tree) {
				tr.rename("/etc", "/x")
			},
			want: []string{a, b, link, c},
		},
		{
			name: "directory appears",
			change: func(tr tree) {
				tr.write(c, "new")
			},
			want: []string{c},
		},
		{
			name: "directory of another mode",
			change: func(tr tree) {
				tr.must(os.Chmod(tr.root+"/etc/app", 0o700))
			},
		},
		{
			name: "foreign files in the same directory",
			change: func(tr tree) {
				tr.write("/etc/app/foreign", "x")
				tr.remove("/etc/app/foreign")
			},
		},
		{
			name: "temporary of a durable write",
			change: func(tr tree) {
				tr.write("/etc/app/.ca978112ca1bbdca.loam-new", "x")
			},
		},
		{
			name: "file read",
			change: func(tr tree) {
				_, err := os.ReadFile(tr.root + a)
				tr.must(err)
			},
		},
		{
			name: "content changed through a hard link elsewhere is not seen",
			change: func(tr tree) {
				tr.write("/store", "other")
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := tree{t, t.TempDir()}
			tr.write(a, "old")
			tr.write(b, "old")
			tr.link("target", link)
			tr.must(os.Link(tr.root+a, tr.root+"/store"))
			w := tr.watch(a, b, c, link)
			test.change(tr)

			if diff := cmp.Diff(test.want, tr.changed(w)); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}

// After the directory was lost, the next change of the file is reported as
// usual.
func TestDirectoryComesBack(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(tr tree)
	}{
		{
			name: "removed and made again",
			lose: func(tr tree) {
				tr.remove("/etc/app")
				tr.write("/etc/app/conf.d/b", "")
			},
		},
		{
			name: "moved away and made again",
			lose: func(tr tree) {
				tr.rename("/etc/app", "/x")
				tr.write("/etc/app/conf.d/b", "")
			},
		},
		{
			name: "moved away and back",
			lose: func(tr tree) {
				tr.rename("/etc/app", "/x")
				tr.rename("/x", "/etc/app")
			},
		},
		{
			name: "replaced by a file for a while",
			lose: func(tr tree) {
				tr.remove("/etc/app")
				tr.write("/etc/app", "a file")
				tr.remove("/etc/app")
				tr.write("/etc/app/conf.d/b", "")
			},
		},
		{
			name: "a link to another directory",
			lose: func(tr tree) {
				tr.rename("/etc/app", "/x")
				tr.link("../x", "/etc/app")
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := tree{t, t.TempDir()}
			tr.write("/etc/app/conf.d/b", "old")

			w := tr.watch("/etc/app/conf.d/b")
			for range 3 {
				test.lose(tr)
				if diff := cmp.Diff([]string{"/etc/app/conf.d/b"}, tr.changed(w)); diff != "" {
					t.Fatalf("changed (-want +got):\n%s", diff)
				}

				tr.write("/etc/app/conf.d/b", "again")
				if diff := cmp.Diff([]string{"/etc/app/conf.d/b"}, tr.changed(w)); diff != "" {
					t.Fatalf("then changed (-want +got):\n%s", diff)
				}

				tr.remove("/etc/app")
				tr.remove("/x")
				tr.write("/etc/app/conf.d/b", "old")
				tr.changed(w)
			}
		})
	}
}

// A directory that was moved away is no longer watched.
func TestDirectoryMovedAwayIsForgotten(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.write("/etc/app/a", "old")
	w := tr.watch("/etc/app/a")
	tr.rename("/etc/app", "/x")
	tr.changed(w)
	tr.write("/x/a", "new")

	if got := tr.changed(w); len(got) > 0 {
		t.Errorf("reported %q", got)
	}
}

func TestLinksAbove(t *testing.T) {
	for _, test := range []struct {
		name   string
		target string
		change func(tr tree)
		want   []string
	}{
		{
			name:   "relative",
			target: "var/opt",
			change: func(tr tree) { tr.write("/var/opt/bin/tool", "new") },
			want:   []string{"/opt/bin/tool"},
		},
		{
			name:   "absolute within the root",
			target: "/var/opt",
			change: func(tr tree) { tr.write("/var/opt/bin/tool", "new") },
			want:   []string{"/opt/bin/tool"},
		},
		{
			name:   "up beyond the root",
			target: "../../../var/opt",
			change: func(tr tree) { tr.write("/var/opt/bin/tool", "new") },
			want:   []string{"/opt/bin/tool"},
		},
		{
			name:   "target appears",
			target: "/later",
			change: func(tr tree) { tr.write("/later/bin/tool", "new") },
			want:   []string{"/opt/bin/tool"},
		},
		{
			name:   "link turned",
			target: "/var/opt",
			change: func(tr tree) { tr.remove("/opt"); tr.link("/other", "/opt") },
			want:   []string{"/opt/bin/tool"},
		},
		{
			name:   "link in a circle",
			target: "opt/opt",
			change: func(tr tree) { tr.remove("/opt") },
			want:   []string{"/opt/bin/tool"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := tree{t, t.TempDir()}
			tr.write("/var/opt/bin/tool", "old")
			tr.link(test.target, "/opt")
			w := tr.watch("/opt/bin/tool")
			test.change(tr)

			if diff := cmp.Diff(test.want, tr.changed(w)); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}

// One directory, two ways to it.
func TestTwoPathsToOneFile(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.write("/var/opt/tool", "old")
	tr.link("var/opt", "/opt")
	w := tr.watch("/opt/tool", "/var/opt/tool")
	tr.write("/var/opt/tool", "new")

	if diff := cmp.Diff([]string{"/opt/tool", "/var/opt/tool"}, tr.changed(w)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestSet(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.write("/etc/old", "")
	tr.write("/etc/kept", "")
	tr.write("/srv/new", "")
	w := tr.watch("/etc/old", "/etc/kept")
	tr.must(w.Set(tr.root, []string{"/etc/kept", "/srv/new", sentinel}))

	for _, name := range []string{"/etc/old", "/etc/kept", "/srv/new"} {
		tr.write(name, "changed")
	}

	if diff := cmp.Diff([]string{"/etc/kept", "/srv/new"}, tr.changed(w)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}

	for _, wrong := range []string{"", "etc/x", "/", "/etc/../x", "/etc/"} {
		if err := w.Set(tr.root, []string{wrong}); err == nil {
			t.Errorf("Set took the path %q", wrong)
		}
	}

	if err := w.Set(tr.root+"/none", []string{"/etc/x"}); err == nil {
		t.Error("Set took a root that is not there")
	}
}

// A mount over a directory makes no event. Here another root takes its place.
func TestSetSeesWhatIsMountedOver(t *testing.T) {
	tr := tree{t, filepath.Join(t.TempDir(), "root")}
	for _, dir := range []string{"-before", "-after"} {
		tr.must(os.MkdirAll(tr.root+dir+"/etc", 0o755))
	}

	tr.must(os.Symlink(tr.root+"-before", tr.root))
	w := tr.watch("/etc/a", "/etc/b")
	tr.changed(w)
	tr.must(os.Remove(tr.root))
	tr.must(os.Symlink(tr.root+"-after", tr.root))

	tr.write(sentinel, "")
	all := []string{"/etc/a", "/etc/b", sentinel}
	slices.Sort(all)
	tr.must(w.Set(tr.root, all))

	if diff := cmp.Diff(all, next(t, w)); diff != "" {
		t.Errorf("by the mount (-want +got):\n%s", diff)
	}

	tr.write("/etc/a", "new")
	if diff := cmp.Diff([]string{"/etc/a"}, tr.changed(w)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// No event is received until all changes are made: each path is reported once.
func TestManyPathsAreMerged(t *testing.T) {
	tr := tree{t, t.TempDir()}
	var paths []string
	for i := range 2000 {
		paths = append(paths, fmt.Sprintf("/etc/%02d/%04d", i%20, i))
		tr.write(paths[i], "old")
	}

	w := tr.watch(paths...)
	for range 2 {
		for _, name := range paths {
			tr.write(name, "new")
		}
	}

	slices.Sort(paths)
	if diff := cmp.Diff(paths, tr.changed(w)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// Watching ends with the root.
func TestRootGone(t *testing.T) {
	tr := tree{t, filepath.Join(t.TempDir(), "root")}
	tr.write("/etc/a", "")
	w := drift.New()
	tr.must(w.Set(tr.root, []string{"/etc/a"}))
	tr.must(os.Rename(tr.root, tr.root+"-gone"))
	for range w.Events() {
	}

	if err := w.Close(); err == nil {
		t.Error("Close: no error about the root")
	}
}

// Close returns when the goroutine has ended, even without a receiver.
func TestClose(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.write("/etc/a", "")
	w := drift.New()
	tr.must(w.Set(tr.root, []string{"/etc/a"}))

	for range 100 {
		tr.write("/etc/a", "new")
	}

	tr.must(w.Close())
	tr.must(w.Close())
	for range w.Events() {
	}

	if err := w.Set(tr.root, []string{"/etc/a"}); err == nil {
		t.Error("Set on a closed watcher: no error")
	}
}

func BenchmarkSet(b *testing.B) {
	root := b.TempDir()
	var paths []string
	for i := range 2000 {
		paths = append(paths, fmt.Sprintf("/etc/%02d/%04d", i%20, i))
		if err := os.MkdirAll(filepath.Dir(root+paths[i]), 0o755); err != nil {
			b.Fatal(err)
		}
	}

	w := drift.New()
	defer w.Close()

	for b.Loop() {
		if err := w.Set(root, paths); err != nil {
			b.Fatal(err)
		}
	}
}
