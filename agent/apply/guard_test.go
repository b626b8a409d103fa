package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
)

// TestNothingChangesBelowAForeignLink has a pod replace a directory above a
// managed path by a link to files of the node.
func TestNothingChangesBelowAForeignLink(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		do            func(t *testing.T, n node)
	}{
		{"by a repair", "of the node", func(t *testing.T, n node) {
			_, err := n.executor(t, nil).Repair(t.Context(), nil, nil)
			if err == nil || !strings.Contains(err.Error(), "/var/q: the directory was replaced") {
				t.Errorf("repair: %v", err)
			}
		}},
		{"by a configuration without the file", "managed", func(t *testing.T, n node) {
			e := n.executor(t, nil)
			mustApply(t, e, filesOf("/etc/a", "2"))
			accept(t, e)
		}},
		{"by a reset", "managed", func(t *testing.T, n node) {
			if err := n.executor(t, nil).Reset(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t)
			e := n.executor(t, nil)
			mustApply(t, e, filesOf("/etc/a", "1", "/var/q/file", "managed"))
			accept(t, e)

			if err := n.root.RemoveAll("var/q"); err != nil {
				t.Fatal(err)
			}
			put(t, n, "etc/cron/file", tt.content)
			if err := n.root.Symlink("../etc/cron", "var/q"); err != nil {
				t.Fatal(err)
			}

			tt.do(t, n)
			if absent(n, "etc/cron/file") {
				t.Error("the file that the link leads to was removed")
			} else if got := read(t, n, "etc/cron/file"); got != tt.content {
				t.Errorf("the file that the link leads to is %q now", got)
			}
		})
	}
}

// swap is a directory of a pod below /var/q, and a link beside it. A pod
// exchanges the two while files below the directory are managed.
type swap struct {
	node
	// pod is the directory, whatever its name is.
	pod       *os.Root
	dir, link string
	// outside is where the link leads to, as it must stay.
	outside map[string]string
}

func newSwap(t *testing.T) swap {
	t.Helper()
	n, _ := fakeNode(t)
	put(t, n, "etc/cron/file", "managed")
	put(t, n, "etc/cron/other", "of the node")
	put(t, n, "var/q/sub/of-the-pod", "")
	if err := n.root.Symlink("../../etc/cron", "var/q/link"); err != nil {
		t.Fatal(err)
	}

	pod, err := n.root.OpenRoot("var/q/sub")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pod.Close() })

	s := swap{
		node: n,
		pod:  pod,
		dir:  filepath.Join(n.root.Name(), "var/q/sub"),
		link: filepath.Join(n.root.Name(), "var/q/link"),
	}
	s.outside = s.look(t)
	return s
}

// look returns the files outside of the pod's directory.
func (s swap) look(t *testing.T) map[string]string {
	t.Helper()
	entries, err := fs.ReadDir(s.root.FS(), "etc/cron")
	if err != nil {
		t.Fatal(err)
	}

	all := map[string]string{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = fmt.Sprint(info.Mode(), " ", read(t, s.node, "etc/cron/"+entry.Name()))
	}
	return all
}

func (s swap) check(t *testing.T, by string) {
	t.Helper()
	if diff := cmp.Diff(s.outside, s.look(t)); diff != "" {
		t.Fatalf("%s changed what the link leads to (-before +after):\n%s", by, diff)
	}
}

// exchange is one system call.
func (s swap) exchange() error {
	return unix.Renameat2(unix.AT_FDCWD, s.dir, unix.AT_FDCWD, s.link, unix.RENAME_EXCHANGE)
}

// changes are all ways to change the files of a node. Errors are as they may:
// a path that leads elsewhere is one.
var changes = []struct {
	name string
	do   func(t *testing.T, s swap, e *apply.Executor)
}{
	{"a configuration with the files", func(t *testing.T, s swap, e *apply.Executor) {
		tryApply(t, e, filesOf("/etc/a", "1", "/var/q/sub/file", "managed", "/var/q/sub/other", "1"))
	}},
	{"a repair", func(t *testing.T, s swap, e *apply.Executor) {
		_ = s.pod.Remove("other")
		_, _ = e.Repair(t.Context(), nil, nil)
	}},
	{"a verification", func(t *testing.T, s swap, e *apply.Executor) {
		_ = s.pod.Remove("other")
		_, _ = e.Verify(t.Context(), nil, true, nil)
	}},
	{"another configuration", func(t *testing.T, s swap, e *apply.Executor) {
		tryApply(t, e, filesOf("/etc/a", "2", "/var/q/sub/file", "managed", "/var/q/sub/other", "2"))
	}},
	{"a configuration with a directory", func(t *testing.T, s swap, e *apply.Executor) {
		tryApply(t, e, filesOf("/var/q/sub/file", "managed", "/var/q/sub/new/file", "1"))
	}},
	{"a configuration without the files", func(t *testing.T, s swap, e *apply.Executor) {
		tryApply(t, e, filesOf("/etc/a", "3"))
	}},
	{"the files again", func(t *testing.T, s swap, e *apply.Executor) {
		tryApply(t, e, filesOf("/var/q/sub/file", "managed", "/var/q/sub/other", "3"))
	}},
	{"a reset", func(t *testing.T, _ swap, e *apply.Executor) {
		_ = e.Reset(t.Context())
	}},
}

// tryApply applies d, and accepts it if it can be applied.
func tryApply(t *testing.T, e *apply.Executor, d config.Desired) {
	t.Helper()
	if _, err := e.Apply(t.Context(), request(d)); err == nil {
		accept(t, e)
	}
}

// TestNothingChangesBelowALinkThatComesInBetween has a pod put the link there
// before each durable step of each change, which is after every look.
func TestNothingChangesBelowALinkThatComesInBetween(t *testing.T) {
	for i, change := range changes {
		for at, more := 1, true; more; at++ {
			s := newSwap(t)
			before := s.executor(t, nil)
			for _, earlier := range changes[:i] {
				earlier.do(t, s, before)
			}

			steps := 0
			change.do(t, s, s.executor(t, func(durable.Step) error {
				steps++
				if steps == at {
					return s.exchange()
				}
				return nil
			}))
			s.check(t, fmt.Sprintf("%s, with the link before step %d", change.name, at))
			more = steps > at
		}
	}
}

// TestNothingChangesBelowALinkThatComesAndGoes has a pod exchange the two as
// often as it can.
func TestNothingChangesBelowALinkThatComesAndGoes(t *testing.T) {
	s := newSwap(t)
	ctx, stop := context.WithCancel(t.Context())
	var pod sync.WaitGroup
	pod.Go(func() {
		for ctx.Err() == nil {
			if err := s.exchange(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer pod.Wait()
	defer stop()

	e := s.executor(t, nil)
	for range 50 {
		for _, change := range changes {
			change.do(t, s, e)
			s.check(t, change.name)
		}
	}
}

// TestFilesBehindLinksOfTheImage has the image's own links lead to directories
// that do not exist yet.
func TestFilesBehindLinksOfTheImage(t *testing.T) {
	n, _ := fakeNode(t)
	for name, target := range map[string]string{
		"opt": "var/opt", "srv": "var/srv", "usr/local": "../var/usrlocal", "home": "var/home",
	} {
		for _, root := range []*os.Root{n.root, n.image} {
			err := errors.Join(root.MkdirAll(path.Dir(name), 0o755), root.Symlink(target, name))
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	e := n.executor(t, nil)
	paths := map[string]string{
		"/opt/x":           "var/opt/x",
		"/opt/cni/bin/x":   "var/opt/cni/bin/x",
		"/srv/x":           "var/srv/x",
		"/usr/local/bin/x": "var/usrlocal/bin/x",
		"/home/a/x":        "var/home/a/x",
	}
	var pairs []string
	for name := range paths {
		pairs = append(pairs, name, "text of "+name)
	}
	mustApply(t, e, filesOf(pairs...))
	accept(t, e)
	for name, real := range paths {
		if _, err := n.root.Lstat(real); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := n.root.Remove(real); err != nil {
			t.Error(err)
		}
	}

	repaired, err := e.Repair(t.Context(), nil, nil)
	if err != nil || len(repaired) != len(paths) {
		t.Errorf("repaired %v, %v", repaired, err)
	}

	mustApply(t, e, filesOf("/etc/a", "1"))
	accept(t, e)
	for name, real := range paths {
		if !absent(n, real) {
			t.Errorf("%s was not removed", name)
		}
	}
}
