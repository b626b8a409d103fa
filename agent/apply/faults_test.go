package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/units"
)

var errPower = errors.New("power cut")

// cutAt is a hook that ends the operation at durable step number n, from 0.
func cutAt(n int) durable.Hook {
	return func(durable.Step) error {
		n--
		if n < 0 {
			return errPower
		}
		return nil
	}
}

// filesOf is a configuration of files: paths and texts in turn.
func filesOf(pairs ...string) config.Desired {
	var d config.Desired
	for i := 0; i < len(pairs); i += 2 {
		d.Files = append(d.Files,
			config.File{Path: pairs[i], Mode: 0o644, Content: config.Text(pairs[i+1])})
	}
	return d
}

func mustApply(t *testing.T, e *apply.Executor, d config.Desired) string {
	t.Helper()
	m, err := e.Apply(t.Context(), request(d))
	if err != nil {
		t.Fatal(err)
	}
	return m.Name()
}

// put writes a file on the node as another program does.
func put(t *testing.T, n node, name, text string) {
	t.Helper()
	err := errors.Join(n.root.MkdirAll(path.Dir(name), 0o755),
		n.root.WriteFile(name, []byte(text), 0o644), n.root.Chmod(name, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func absent(n node, name string) bool {
	_, err := n.root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

func TestFailedApplyLeavesWhatIsNotOurs(t *testing.T) {
	n, _ := fakeNode(t)
	way := ""
	e := n.executor(t, func(durable.Step) error {
		if way != "" && absent(n, way) {
			put(t, n, way+"/x", "in the way") // as soon as the apply has begun
		}
		return nil
	})

	mustApply(t, e, filesOf("/etc/foo", "x"))
	put(t, n, "var/lib/db/data", "precious")

	if err := n.image.Mkdir("etc/dir", 0o755); err != nil {
		t.Fatal(err)
	}

	for _, way = range []string{"etc/dir", "var/lib/blocked"} {
		if _, err := e.Apply(t.Context(),
			request(filesOf("/etc/aaa", "1", "/"+way, "2", "/var/lib/db/data", "3"))); err == nil {
			t.Fatal("a file took the place of a directory that is not ours")
		}
		if got, err := n.root.ReadFile("var/lib/db/data"); err != nil || string(got) != "precious" {
			t.Errorf("a file that was never placed: %q %v", got, err)
		}
	}

	if !absent(n, "etc/aaa") || !absent(n, "var/lib/loam/journal.json") || absent(n, "etc/foo") {
		t.Error("the apply was not undone")
	}
}

func TestFileBecomesDirectoryAndBack(t *testing.T) {
	for _, pair := range [][2]string{
		{"/etc/foo", "/etc/foo/bar"}, {"/etc/foo", "/etc/foo/bar/baz"},
		{"/var/foo", "/var/foo/bar"}, {"/var/foo", "/var/foo/bar/baz"},
	} {
		n, _ := fakeNode(t)
		e := n.executor(t, nil)
		for _, name := range []string{pair[0], pair[1], pair[0], pair[1]} {
			mustApply(t, e, filesOf(name, "of "+name))
			copied := strings.HasPrefix(name, "/var/")
			if (copied && read(t, n, name[1:]) != "of "+name) || absent(n, name[1:]) {
				t.Errorf("%v: %s is not there", pair, name)
			}
			if r, err := e.Resume(t.Context()); err != nil || len(r.Repaired) > 0 {
				t.Errorf("%v: resume afterwards: %+v %v", pair, r, err)
			}
		}

		mustApply(t, e, filesOf("/etc/other", ""))
		if !absent(n, pair[0][1:]) {
			t.Errorf("%v: something is left", pair)
		}
	}
}

// failReload is an Around with which each daemon-reload fails.
func failReload(_ context.Context, job units.Job, do func() error) error {
	if job.Verb == "daemon-reload" {
		return errors.New("reload: timeout")
	}
	return do()
}

func TestNextApplyCompletesTheOneBefore(t *testing.T) {
	n, fake := fakeNode(t)
	e := n.executor(t, nil)
	mustApply(t, e, first())
	before := show(t, n, "one.service").InvocationID
	fake.Around = failReload

	if m, err := e.Apply(t.Context(), request(second())); !errors.Is(err, apply.ErrUnfinished) ||
		m.Name() == "" {
		t.Fatalf("a reload that failed: %s %v", m.Name(), err)
	}

	third := second()
	third.Files = append(third.Files,
		config.File{Path: "/etc/z", Mode: 0o644, Content: config.Text("z")})
	if _, err := e.Apply(t.Context(), request(third)); !errors.Is(err, apply.ErrUnfinished) {
		t.Fatalf("the next apply without a reload: %v", err)
	}

	fake.Around = nil
	mustApply(t, e, third)

	if show(t, n, "one.service").InvocationID == before || show(t, n, "gone.service").Running() {
		t.Error("what the unfinished apply had to do with units was dropped")
	}
}

// TestNextApplyRepairsWhatCannotBePlaced: the file of the unfinished generation
// can no longer be placed; a configuration without it can be applied.
func TestNextApplyRepairsWhatCannotBePlaced(t *testing.T) {
	n, fake := fakeNode(t)
	fake.Around = failReload
	e := n.executor(t, nil)
	mustApply(t, e, filesOf("/etc/foo", "1"))
	d := first()
	d.Files = append(d.Files, filesOf("/var/x", "2").Files...)

	if _, err := e.Apply(t.Context(), request(d)); err == nil {
		t.Fatal("no error")
	}

	fake.Around = nil
	if err := n.root.Remove("var/x"); err != nil {
		t.Fatal(err)
	}

	put(t, n, "var/x/y", "in the way")
	if _, err := e.Resume(t.Context()); !errors.Is(err, apply.ErrUnfinished) {
		t.Fatalf("resume: %v", err)
	}

	mustApply(t, e, filesOf("/etc/foo", "3"))
	if !absent(n, "etc/app") || !absent(n, "etc/systemd/system/one.service") ||
		read(t, n, "var/x/y") != "in the way" {
		t.Error("the node is a mix")
	}
}

func TestTornLeftoversAreSkipped(t *testing.T) {
	for _, journal := range []string{
		"junk", `{"to":"x"}`, `{"from":"../x","to":"000009-0123456789ab"}`,
	} {
		n, _ := fakeNode(t)
		e := n.executor(t, nil)
		old := mustApply(t, e, filesOf("/etc/x", "x"))
		mustApply(t, e, filesOf("/etc/y", "y"))

		if err := n.root.RemoveAll("var/lib/loam/generations/" + old + "/root"); err != nil {
			t.Fatal(err)
		}

		put(t, n, "var/lib/loam/os/stray", "")
		put(t, n, "var/lib/loam/journal.json", journal)
		put(t, n, "var/lib/loam/os-version", "0.0.9\n")

		if _, err := e.Resume(t.Context()); err != nil || !absent(n, "var/lib/loam/journal.json") {
			t.Errorf("journal %s: resume: %v", journal, err)
		}

		mustApply(t, e, filesOf("/etc/z", "z"))
	}
}

func TestStaleIsOfTheOSVersionBefore(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	resume := func(want ...string) {
		t.Helper()
		r, err := e.Resume(t.Context())
		if err != nil || fmt.Sprint(r.Repaired) != fmt.Sprint(want) {
			t.Errorf("resume under %s: %v %v, want %v", e.Config().OSVersion, r.Repaired, err, want)
		}
	}

	runs := func(version string) {
		e = executor.With(e, func(c *apply.Config) { c.OSVersion = version })
	}

	resume()
	mustApply(t, e, filesOf("/opt/cni/bin/x", "x", "/etc/y", "y"))
	mustApply(t, e, filesOf("/etc/y", "y"))
	put(t, n, "opt/cni/bin/x", "x") // by a daemon set
	resume()
	runs("0.2.0")
	resume()
	mustApply(t, e, filesOf("/var/new", "n"))
	runs("0.1.0")
	resume("/var/new")

	if absent(n, "opt/cni/bin/x") {
		t.Error("a file that another wrote is gone")
	}
}

// TestCutWhileFileBecomesDirectory stops before each durable step of the
// change, in both directions, and starts again.
func TestCutWhileFileBecomesDirectory(t *testing.T) {
	file := filesOf("/etc/foo", "1", "/var/foo", "1")
	dir := filesOf("/etc/foo/bar", "2", "/var/foo/bar", "2")
	for _, pair := range [][2]config.Desired{{file, dir}, {dir, file}} {
		for step := 0; ; step++ {
			n, _ := fakeNode(t)
			mustApply(t, n.executor(t, nil), pair[0])

			_, err := n.executor(t, cutAt(step)).Apply(t.Context(), request(pair[1]))
			if err == nil {
				break
			}

			e := n.executor(t, nil)
			if _, err := e.Resume(t.Context()); err != nil {
				t.Fatalf("resume after a cut at step %d: %v", step, err)
			}

			mustApply(t, e, pair[1])
			if r, err := e.Resume(t.Context()); err != nil || len(r.Repaired) > 0 {
				t.Fatalf("after a cut at step %d: %+v %v", step, r, err)
			}

			mustApply(t, e, filesOf("/etc/other", ""))
			if !absent(n, "etc/foo") || !absent(n, "var/foo") {
				t.Fatalf("after a cut at step %d something is left", step)
			}
		}
	}
}
