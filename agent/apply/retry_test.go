package apply_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
)

// disk is full for the steps that refuses reports; with nil it has room.
type disk struct{ refuses func(durable.Step) bool }

func (d *disk) hook(s durable.Step) error {
	if d.refuses != nil && d.refuses(s) {
		return &durable.Fault{Err: syscall.ENOSPC}
	}
	return nil
}

func noJournal(s durable.Step) bool { return s.Op == durable.Rename && s.Name == "journal.json" }
func noFlip(s durable.Step) bool {
	return s.Op == durable.Rename && s.Name == "os/0.1.0/current"
}
func noRealFile(s durable.Step) bool { return s.Op == durable.Rename && s.Name == "var/real" }

// withUnit is a configuration with a real file, and a unit of that text.
func withUnit(value, text string) config.Desired {
	d := filesOf("/etc/app/a.conf", value, "/var/real", value)
	d.Units = []config.Unit{{Name: "a.service", Content: &text}}
	return d
}

// goOn is what the loop does after an error: complete the rest, and carry out
// the verdict that comes then.
func goOn(t *testing.T, e *apply.Executor) {
	t.Helper()
	if _, err := e.Resume(t.Context()); err != nil && errors.Is(err, apply.ErrUnfinished) {
		t.Fatalf("resume: %v", err)
	}

	v, err := e.Judge(t.Context())
	if err == nil && v.Word == health.Bad {
		_, err = e.Conclude(t.Context(), v)
	}

	if err != nil {
		t.Fatal(err)
	}
}

func TestWayBackGoesOnOnceThereIsRoom(t *testing.T) {
	for name, refuses := range map[string]func(durable.Step) bool{
		"none for the journal": noJournal, "none for the flip": noFlip,
		"none for a real file": noRealFile,
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := fakeNode(t)
			d := &disk{}
			e := n.executor(t, d.hook)
			good := mustApply(t, e, withUnit("1", sleeper))
			accept(t, e)

			if _, err := e.Apply(t.Context(), request(withUnit("2", crasher))); err == nil {
				t.Fatal("a unit that fails started")
			}

			v, err := e.Judge(t.Context())
			if err != nil || v.Word != health.Bad {
				t.Fatalf("%+v %v", v, err)
			}

			d.refuses = refuses
			if _, err := e.Conclude(t.Context(), v); !errors.Is(err, apply.ErrUnfinished) ||
				!errors.Is(err, syscall.ENOSPC) {
				t.Errorf("without room: %v", err)
			}

			if _, err := e.Resume(t.Context()); err == nil && !isUnderWay(t, e) {
				t.Error("it went back without room")
			}

			d.refuses = nil
			goOn(t, e)
			isAt(t, n, e, good, "1")

			if _, held, err := e.Held(withUnit("2", crasher).Digest()); !held || err != nil {
				t.Errorf("what was taken back is held: %v %v", held, err)
			}
		})
	}
}

func TestRollbackWithoutRoomIsRefusedOrCompleted(t *testing.T) {
	for _, tt := range []struct {
		name      string
		refuses   func(durable.Step) bool
		completed bool
	}{
		{"none for the journal, so that it never began", noJournal, false},
		{"none for the flip", noFlip, true},
		{"none for a real file", noRealFile, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t)
			d := &disk{}
			e := n.executor(t, d.hook)
			first := mustApply(t, e, withUnit("1", sleeper))
			accept(t, e)
			second := mustApply(t, e, withUnit("2", sleeper))
			accept(t, e)
			d.refuses = tt.refuses

			m, err := e.Rollback(t.Context(), "")
			if m.Name() != "" || !errors.Is(err, syscall.ENOSPC) ||
				errors.Is(err, apply.ErrUnfinished) != tt.completed {
				t.Errorf("without room: %s %v", m.Name(), err)
			}

			if n := strings.Count(err.Error(), apply.ErrUnfinished.Error()); n > 1 {
				t.Errorf("it says %d times that it is unfinished: %v", n, err)
			}

			d.refuses = nil
			goOn(t, e)

			if tt.completed {
				isAt(t, n, e, first, "1")
			} else {
				isAt(t, n, e, second, "2")
			}
		})
	}
}

// isAt is what holds of a node that runs a generation of withUnit, with nothing
// under way.
func isAt(t *testing.T, n node, e *apply.Executor, name, value string) {
	t.Helper()
	m, _, err := e.Current()
	if err != nil || m.Name() != name || read(t, n, "var/real") != value {
		t.Errorf("the node runs %s with %q, not %s: %v",
			m.Name(), read(t, n, "var/real"), name, err)
	}

	if s := show(t, n, "a.service"); s.Active != "active" {
		t.Errorf("its unit: %+v", s)
	}
	if isUnderWay(t, e) {
		t.Error("something is under way")
	}
}

func isUnderWay(t *testing.T, e *apply.Executor) bool {
	t.Helper()
	_, is, err := e.Pending()
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestChangeIsStillWatchedAfterARollbackThatIsRefused(t *testing.T) {
	n, _ := fakeNode(t)
	d := &disk{}
	e := n.executor(t, d.hook)
	mustApply(t, e, withUnit("1", sleeper))
	accept(t, e)
	second := mustApply(t, e, withUnit("2", sleeper))
	d.refuses = noJournal

	if _, err := e.Rollback(t.Context(), ""); err == nil || errors.Is(err, apply.ErrUnfinished) {
		t.Errorf("without room: %v", err)
	}

	d.refuses = nil
	accept(t, e)
	isAt(t, n, e, second, "2")
}

func TestJournalThatCannotBeWrittenLeavesNothing(t *testing.T) {
	n, _ := fakeNode(t)
	d := &disk{}
	e := n.executor(t, d.hook)
	first := mustApply(t, e, withUnit("1", sleeper))
	accept(t, e)
	d.refuses = noJournal

	for range 3 {
		_, err := e.Apply(t.Context(), request(withUnit("2", sleeper)))
		if !apply.Transient(err) || errors.Is(err, apply.ErrUnfinished) {
			t.Errorf("without room: %v", err)
		}
	}

	if got := generations(t, e); !slices.Equal(got, []string{first}) {
		t.Errorf("generations %v", got)
	}

	d.refuses = nil
	mustApply(t, e, withUnit("2", sleeper))
	accept(t, e)

	if m, err := e.Rollback(t.Context(), ""); err != nil || m.Name() != first {
		t.Errorf("rolled back to %s: %v", m.Name(), err)
	}
}

func generations(t *testing.T, e *apply.Executor) []string {
	t.Helper()
	names, err := generation.Read(e.Config().State.Root().FS()).List()
	if err != nil {
		t.Fatal(err)
	}
	return names
}
