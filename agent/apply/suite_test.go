package apply_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/units"
)

// node is a root directory with a systemd, real or not.
type node struct {
	root, image *os.Root
	units       apply.Units
	clock       *atomic.Value // of time.Duration, the uptime
}

func newNode(root, image *os.Root, units apply.Units) node {
	n := node{
		root:  root,
		image: image,
		units: units,
		clock: &atomic.Value{},
	}
	n.clock.Store(time.Hour)
	return n
}

func request(d config.Desired) apply.Request { return apply.Request{Desired: d, Source: "test"} }

// accept gives the last change the verdict that it is good.
func accept(t *testing.T, e *apply.Executor) {
	t.Helper()
	v, err := e.Judge(t.Context())
	if err != nil || v.Word != health.Good {
		t.Fatalf("verdict %+v %v", v, err)
	}
	if _, err := e.Conclude(t.Context(), v); err != nil {
		t.Fatal(err)
	}
}

// executor makes an executor, with hook before each durable step.
func (n node) executor(t *testing.T, hook durable.Hook) *apply.Executor {
	t.Helper()
	return executor.Node{
		Root:   n.root,
		Image:  n.image,
		Units:  n.units,
		Uptime: func() time.Duration { return n.clock.Load().(time.Duration) },
		Hook:   hook,
	}.Start(t)
}

func fakeNode(t *testing.T) (node, *units.Fake) {
	t.Helper()
	root := tree(t, nil)
	image := tree(t, map[string]string{
		"usr/lib/systemd/system/systemd-journald.service": "[Service]\n",
		"etc/issue": "of the image\n",
	})
	fake := newFake(t, root, image)
	return newNode(root, image, fake), fake
}

// newFake returns a systemd of the unit files there, with journald up.
func newFake(t *testing.T, root, image *os.Root) *units.Fake {
	t.Helper()
	fake := &units.Fake{Texts: units.Files(root.Name(), image.Name())}
	if err := fake.Boot("systemd-journald.service"); err != nil {
		t.Fatal(err)
	}
	return fake
}

func tree(t *testing.T, texts map[string]string) *os.Root {
	t.Helper()
	root := files.Root(t)
	dir := durable.New(root, nil)
	for name, text := range texts {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return root
}

func TestExecutorWithFake(t *testing.T) {
	n, _ := fakeNode(t)
	suite(t, n)
}

func TestExecutorWithSystemd(t *testing.T) {
	container.Run(t, func(t *testing.T, c *container.Container) {
		image := c.OpenImage(t)
		systemd := c.Connect(t)

		suite(t, newNode(c.OpenRoot(t), image, systemd))
	})
}

func text(s string) *string { return &s }

const sleeper = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

func unitsOf(units ...config.Unit) config.Desired { return config.Desired{Units: units} }

func ownUnit(name, content string) config.Unit { return config.Unit{Name: name, Content: &content} }

func first() config.Desired {
	return config.Desired{
		Files: []config.File{
			{Path: "/etc/app/a.conf", Mode: 0o644, Content: config.Text("one\n")},
			{Path: "/etc/issue", Mode: 0o644, Content: config.Text("of the configuration\n")},
			{Path: "/var/lib/app/data", Mode: 0o600, Content: config.Text("secret\n")},
		},
		Units: []config.Unit{
			{Name: "gone.service", Content: text(sleeper)},
			{Name: "one.service", Content: text(sleeper), FilePaths: []string{"/etc/app/a.conf"}},
			{
				Name: "systemd-journald.service",
				DropIns: []config.DropIn{
					{Name: "10-a.conf", Content: "[Service]\nEnvironment=A=1\n"},
				},
			},
			{
				Name:    "two.service",
				Content: text(sleeper),
				DropIns: []config.DropIn{
					{Name: "10-a.conf", Content: "[Service]\nEnvironment=A=1\n"},
				},
			},
		},
	}
}

// second changes a file, and leaves out files, a unit, and the drop-in of a
// unit of the image.
func second() config.Desired {
	d := first()
	d.Files = []config.File{{Path: "/etc/app/a.conf", Mode: 0o644, Content: config.Text("two\n")}}
	d.Units = []config.Unit{d.Units[1], d.Units[3]}
	return d
}

// suite is what holds of an executor, whatever systemd it has.
func suite(t *testing.T, n node) {
	e := n.executor(t, nil)
	m, err := e.Apply(t.Context(), request(first()))
	if err != nil {
		t.Fatal(err)
	}

	accept(t, e)
	for _, u := range []string{
		"one.service", "two.service", "gone.service", "systemd-journald.service",
	} {
		if s := show(t, n, u); !s.Running() || s.InvocationID == "" {
			t.Errorf("after the first apply: %+v", s)
		}
	}

	if got := read(t, n, "var/lib/app/data"); got != "secret\n" {
		t.Errorf("a real file has %q", got)
	}

	if p, err := e.Plan(t.Context(), first(), "test"); err != nil ||
		len(p.Files)+len(p.Units) > 0 || p.Reload {
		t.Errorf("the plan for what is there is not empty: %v %v", p, err)
	}

	before := invocations(t, n)
	p, err := e.Plan(t.Context(), second(), "test")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := e.Apply(t.Context(), request(second())); err != nil {
		t.Fatal(err)
	}

	accept(t, e)
	got := changed(before, invocations(t, n))
	want := []string{
		"one.service", "systemd-journald.service",
	}
	if !slices.Equal(got, want) {
		t.Errorf("restarted %v, not %v; the plan was\n%s", got, want, p)
	}

	if s := show(t, n, "gone.service"); s.Running() {
		t.Errorf("a unit that left the configuration: %+v", s)
	}

	for _, name := range []string{
		"etc/systemd/system/gone.service",
		"etc/systemd/system/multi-user.target.wants/gone.service", "var/lib/app",
		"etc/systemd/system/systemd-journald.service.d",
	} {
		if _, err := n.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}

	history, err := apply.History(e.Config().State.Root().FS())
	if err != nil || len(history) != 2 || history[0].Generation != m.Name() ||
		history[1].Outcome != apply.Applied {
		t.Errorf("history: %+v %v", history, err)
	}

	before = invocations(t, n)
	if r, err := e.Resume(t.Context()); err != nil || r.Finished != "" || len(r.Repaired) > 0 {
		t.Errorf("resume with nothing to do: %+v %v", r, err)
	}
	if got := changed(before, invocations(t, n)); len(got) > 0 {
		t.Errorf("resume restarted %v", got)
	}

	failing(t, n, e)
}

// failing adds a unit that cannot start: it is reported, and the rest is done.
func failing(t *testing.T, n node, e *apply.Executor) {
	d := second()
	d.Units = append([]config.Unit{
		{
			Name:    "fails.service",
			Content: text("[Service]\nType=oneshot\nExecStart=sh -c 'exit 3'\n"),
		},
	}, d.Units...)

	d.Units = append(d.Units, config.Unit{Name: "zoo.service", Content: text(sleeper)})
	var failure *unit.JobError
	if _, err := e.Apply(t.Context(), request(d)); !errors.As(err, &failure) ||
		failure.Unit != "fails.service" {
		t.Errorf("a unit that fails: %v", err)
	}

	if s := show(t, n, "zoo.service"); !s.Running() {
		t.Errorf("after a unit failed, the next was not started: %+v", s)
	}

	before, _, _ := e.Current()
	bad := config.Desired{Units: []config.Unit{{Name: "absent.service"}}}
	if _, err := e.Apply(t.Context(), request(bad)); err == nil {
		t.Error("a unit that does not exist was applied")
	}

	if after, _, _ := e.Current(); cmp.Diff(before, after) != "" {
		t.Error("a configuration that cannot be had changed the node")
	}
}

func show(t *testing.T, n node, name string) unit.State {
	t.Helper()
	states, err := n.units.Show(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func read(t *testing.T, n node, name string) string {
	t.Helper()
	got, err := n.root.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func invocations(t *testing.T, n node) map[string]string {
	ids := map[string]string{}
	for _, name := range []string{"one.service", "systemd-journald.service", "two.service"} {
		ids[name] = show(t, n, name).InvocationID
	}
	return ids
}

func changed(before, after map[string]string) []string {
	var names []string
	for name, id := range after {
		if before[name] != id {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
