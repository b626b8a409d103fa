package apply_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/units"
)

// usedNode has run two configurations, holds one, and is trying a third.
func usedNode(t *testing.T, n node) {
	t.Helper()
	e := n.executor(t, nil)
	mustApply(t, e, first())
	accept(t, e)
	mustApply(t, e, withUnit("secret of the second", sleeper))
	accept(t, e)

	if err := e.Hold(apply.Held{Digest: strings.Repeat("a", 64), Why: "test"}); err != nil {
		t.Fatal(err)
	}

	third := first()
	third.Files = append(third.Files,
		config.File{Path: "/var/secret", Mode: 0o600, Content: config.Text("secret")})
	mustApply(t, e, third)
}

// isNew says whether nothing of a configuration is left.
func isNew(t *testing.T, n node) {
	t.Helper()
	for _, name := range []string{
		"etc/app", "var/lib/app", "var/real", "var/secret", "etc/systemd/system/one.service",
		"etc/systemd/system/multi-user.target.wants/one.service",
		"var/lib/loam/os", "var/lib/loam/held.json", "var/lib/loam/journal.json",
	} {
		if _, err := n.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}

	for _, dir := range []string{"generations", "store/sha256", "store/tree"} {
		left, err := fs.ReadDir(n.root.FS(), "var/lib/loam/"+dir)
		if (err != nil && !errors.Is(err, fs.ErrNotExist)) || len(left) > 0 {
			t.Errorf("%s has %v: %v", dir, left, err)
		}
	}

	for _, name := range []string{"one.service", "two.service", "gone.service", "a.service"} {
		if s := show(t, n, name); s.Running() {
			t.Errorf("%s runs: %+v", name, s)
		}
	}

	if s := show(t, n, "systemd-journald.service"); !s.Running() || len(s.DropInPaths) > 0 {
		t.Errorf("the image's unit is not as the image has it: %+v", s)
	}
}

func TestReset(t *testing.T) {
	n, fake := fakeNode(t)
	usedNode(t, n)
	put(t, n, "var/secret", "written over") // A managed path is the node's, whatever is there.
	e := n.executor(t, nil)
	starts := fake.Starts()

	if err := e.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}

	isNew(t, n)
	if got := read(t, n, "etc/issue"); got != "of the image\n" {
		t.Errorf("a file of the image is %q", got)
	}
	if fake.Starts() != starts+1 {
		t.Errorf("%d starts, want the one of the unit that loses a drop-in", fake.Starts()-starts)
	}

	if r, err := n.executor(t, nil).Resume(t.Context()); err != nil ||
		cmp.Diff(apply.Resumed{}, r) != "" {
		t.Errorf("the next start finds %+v %v", r, err)
	}

	if records, err := apply.History(e.Config().State.Root().FS()); err != nil || len(records) == 0 {
		t.Errorf("the history: %v %v", records, err)
	}
	if got := mustApply(t, e, first()); !strings.HasPrefix(got, "000001-") {
		t.Errorf("the next configuration is generation %s", got)
	}
}

func TestResetOfANewNodeChangesNothing(t *testing.T) {
	n, fake := fakeNode(t)
	starts := fake.Starts()
	e := n.executor(t, func(s durable.Step) error {
		if s.Op != durable.Remove { // nothing there
			t.Errorf("%s", s)
		}
		return nil
	})
	if err := e.Reset(t.Context()); err != nil || fake.Starts() != starts {
		t.Errorf("%d starts, %v", fake.Starts()-starts, err)
	}
}

// TestResetIsDoneAgain cuts it off before each of its steps.
func TestResetIsDoneAgain(t *testing.T) {
	for k, done := 0, false; !done; k++ {
		n, _ := fakeNode(t)
		usedNode(t, n)
		cut := n.executor(t, cutAt(k)).Reset(t.Context())
		done = cut == nil
		if !done && (!errors.Is(cut, errPower) || !errors.Is(cut, apply.ErrUnfinished)) {
			t.Fatalf("cut at step %d: %v", k, cut)
		}

		if err := n.executor(t, nil).Reset(t.Context()); err != nil {
			t.Fatalf("again after a cut at step %d: %v", k, err)
		}

		isNew(t, n)
		if t.Failed() {
			t.Fatalf("after a cut at step %d", k)
		}
	}
}

// stuck returns an Around with which one unit cannot be stopped or restarted.
func stuck(name string) func(ctx context.Context, job units.Job, do func() error) error {
	return func(_ context.Context, job units.Job, do func() error) error {
		if job.Unit == name && (job.Verb == "stop" || job.Verb == "restart") {
			return &unit.JobError{Verb: job.Verb, Unit: name, Result: "timeout"}
		}
		return do()
	}
}

func TestResetDoesWhatItCan(t *testing.T) {
	for _, tt := range []struct {
		name, unit string
		unfinished bool
	}{
		{
			name:       "a unit that does not stop keeps the generations, to stop it later",
			unit:       "one.service",
			unfinished: true,
		},
		{
			name: "a unit of the image that does not come up is told",
			unit: "systemd-journald.service",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, fake := fakeNode(t)
			usedNode(t, n)
			fake.Around = stuck(tt.unit)

			err := n.executor(t, nil).Reset(t.Context())
			if !errors.As(err, new(*unit.JobError)) ||
				errors.Is(err, apply.ErrUnfinished) != tt.unfinished {
				t.Fatal(err)
			}

			if _, err := n.root.Lstat("etc/app"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the rest was not done: %v", err)
			}

			fake.Around = nil
			if err := n.executor(t, nil).Reset(t.Context()); err != nil {
				t.Fatal(err)
			}

			isNew(t, n)
		})
	}
}

func TestResetWithSystemd(t *testing.T) {
	container.Run(t, func(t *testing.T, c *container.Container) {
		image := c.OpenImage(t)
		systemd := c.Connect(t)

		n := newNode(c.OpenRoot(t), image, systemd)
		usedNode(t, n)
		if err := n.executor(t, nil).Reset(t.Context()); err != nil {
			t.Fatal(err)
		}

		isNew(t, n)
	})
}
