package drift

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// view is what a watcher watches, by inode: the names of managed paths, and the
// directories that are looked up through names.
func view(t *testing.T, w *Watcher) map[string]string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()

	all := map[string]string{}
	for name, dir := range w.armed.seen {
		if dir == nil {
			continue
		}
		var says []string
		for _, entries := range []map[string][]string{dir.files, dir.ways} {
			for _, entry := range slices.Sorted(maps.Keys(entries)) {
				says = append(says,
					fmt.Sprint(entry, " ", slices.Sorted(slices.Values(entries[entry]))))
			}
		}
		all[name] = strings.Join(says, "\n")
	}

	if len(all) < len(w.table) {
		t.Errorf("%d directories in the table, %d known by name", len(w.table), len(all))
	}

	return all
}

// watches is the number of watches of w in the kernel (proc_pid_fdinfo(5)).
func watches(t *testing.T, w *Watcher) int {
	t.Helper()
	conn, err := w.inotify.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}

	var text []byte
	controlErr := conn.Control(func(fd uintptr) {
		text, err = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	})
	if controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}

	return strings.Count(string(text), "inotify wd:")
}

// TestALaterSetWatchesLikeTheFirst walks from set to set, with links on the
// way and missing paths, and compares each with a new watcher's.
func TestALaterSetWatchesLikeTheFirst(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a/b/c", "a/d", "e", "store/one", "store/two"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	for name, target := range map[string]string{
		"a/one":  "/store/one",
		"e/up":   "../a",
		"circle": "circle",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}

	parents := []string{
		"/a", "/a/b", "/a/b/c", "/a/d", "/e", "/store/one", "/store/two", "/a/one", "/e/up/d",
		"/e/up/one", "/circle", "/absent/x", "/a/absent",
	}

	walker := New()
	dice := rand.New(rand.NewPCG(1, 2))
	defer walker.Close()

	for step := range 300 {
		var paths []string
		for _, parent := range parents {
			for i := range 3 {
				if dice.IntN(3) == 0 {
					paths = append(paths, fmt.Sprintf("%s/file-%d", parent, i))
				}
			}
		}

		fresh := New()
		for _, w := range []*Watcher{walker, fresh} {
			if err := w.Set(root, paths); err != nil {
				t.Fatal(err)
			}
		}

		if diff := cmp.Diff(view(t, fresh), view(t, walker)); diff != "" {
			t.Fatalf("step %d (-new +walked):\n%s", step, diff)
		}
		if a, b := watches(t, fresh), watches(t, walker); a != b {
			t.Fatalf("step %d: %d watches of a new watcher, %d of the other", step, a, b)
		}
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
