package apply_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
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

// TestCutAtEveryStep applies a second configuration over a first, stops before
// each durable step in turn, and starts again: the node is then all the first
// or all the second, and can go on.
func TestCutAtEveryStep(t *testing.T) {
	seen := map[string]int{}
	for step := 0; ; step++ {
		n, fake := fakeNode(t)
		if _, err := n.executor(t, nil).Apply(t.Context(), request(first())); err != nil {
			t.Fatal(err)
		}
		_, err := n.executor(t, cutAt(step)).Apply(t.Context(), request(second()))
		if err == nil {
			t.Logf("%d steps; afterwards the node had the %v", step, seen)
			break
		}
		if !errors.Is(err, errPower) {
			t.Fatalf("cut at step %d: %v", step, err)
		}
		e := n.executor(t, nil)
		if _, err := e.Resume(t.Context()); err != nil {
			t.Fatalf("resume after a cut at step %d: %v", step, err)
		}
		m, _, err := e.Current()
		if err != nil {
			t.Fatal(err)
		}
		if m.Digest == first().Digest() {
			seen["first"]++
			expect(t, step, n, fake, first())
		} else {
			seen["second"]++
			expect(t, step, n, fake, second())
		}
		applyAgain(t, step, e)
		expect(t, step, n, fake, second())
	}
	if seen["first"] == 0 || seen["second"] == 0 {
		t.Errorf("the cuts left only %v", seen)
	}
}

func applyAgain(t *testing.T, step int, e *apply.Executor) {
	t.Helper()
	if _, err := e.Apply(t.Context(), request(second())); err != nil {
		t.Fatalf("apply after a cut at step %d: %v", step, err)
	}
	p, err := e.Plan(t.Context(), second(), "test")
	if err != nil || len(p.Files)+len(p.Units) > 0 {
		t.Fatalf("after a cut at step %d and an apply, there is still to do: %v %v", step, p, err)
	}
}

// expect compares all that the two configurations bear on with want.
func expect(t *testing.T, step int, n node, fake *fakeSystemd, want config.Desired) {
	t.Helper()
	type facts struct {
		Conf, Seen           string
		Data, Issue          string
		Gone, GoneLink, Drop bool
		Running              bool
	}
	current, err := n.root.Readlink("var/lib/loam/os/0.1.0/current")
	if err != nil {
		t.Fatal(err)
	}
	conf := read(t, n, "var/lib/loam/os/0.1.0/"+current+"/root/etc/app/a.conf")
	exists := func(name string) bool {
		_, err := n.root.Lstat(name)
		return !errors.Is(err, fs.ErrNotExist)
	}
	data, _ := n.root.ReadFile("var/lib/app/data")
	issue, err := n.root.ReadFile("etc/issue")
	if err != nil {
		issue, _ = n.root.ReadFile("var/lib/loam/os/0.1.0/" + current + "/root/etc/issue")
	}
	got := facts{conf, fake.conf["one.service"], string(data), string(issue), exists("etc/systemd/system/gone.service"),
		exists("etc/systemd/system/multi-user.target.wants/gone.service"),
		exists("etc/systemd/system/systemd-journald.service.d"), fake.states["gone.service"].Running()}
	wanted := facts{"one\n", "one\n", "secret\n", "of the configuration\n", true, true, true, true}
	if want.Digest() == second().Digest() {
		wanted = facts{Conf: "two\n", Seen: "two\n", Issue: "of the image\n"}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Fatalf("after a cut at step %d the node is a mix (-want +got):\n%s", step, diff)
	}
}
