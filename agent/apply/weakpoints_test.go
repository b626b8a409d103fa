package apply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/health"
	settings "github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/executor"
)

// The weak points of Gardener's reference node agent, by number, and what Loam
// does instead. 06, 10b and 19 are in agent/osc.

const crasher = "[Service]\nType=oneshot\nExecStart=sh -c 'exit 3'\n"

// verdict judges the last change and has that carried out.
func verdict(t *testing.T, e *apply.Executor) health.Verdict {
	t.Helper()
	v, err := e.Judge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Conclude(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWeakPoint01DropInsSurviveAPartialFailure(t *testing.T) {
	n, fake := fakeNode(t)
	fake.Around = failReload
	e := n.executor(t, nil)

	two := ownUnit("two.service", sleeper)
	for _, name := range []string{"10-a.conf", "20-b.conf"} {
		two.DropIns = append(two.DropIns,
			config.DropIn{Name: name, Content: "[Service]\nEnvironment=A=1\n"})
	}

	d := unitsOf(two, ownUnit("fails.service", crasher))
	if _, err := e.Apply(t.Context(), request(d)); !errors.Is(err, apply.ErrUnfinished) {
		t.Fatalf("without a daemon-reload: %v", err)
	}

	fake.Around = nil
	for range 2 {
		_, err := e.Apply(t.Context(), request(d))
		var failure *unit.JobError
		if !errors.As(err, &failure) || failure.Unit != "fails.service" {
			t.Errorf("tried again: %v", err)
		}
		for _, in := range two.DropIns {
			if name := "etc/systemd/system/two.service.d/" + in.Name; absent(n, name) {
				t.Errorf("%s is gone", name)
			}
		}
	}
}

func TestWeakPoint02NothingIsLeftOfWhatFailed(t *testing.T) {
	failed := unitsOf(ownUnit("fails.service", crasher))
	failed.Files = filesOf("/etc/left", "2", "/var/left", "2").Files

	for _, judged := range []bool{true, false} {
		n, _ := fakeNode(t)
		e := n.executor(t, nil)
		mustApply(t, e, filesOf("/etc/foo", "1"))
		accept(t, e)

		if _, err := e.Apply(t.Context(), request(failed)); err == nil {
			t.Fatal("no error")
		}

		if judged {
			verdict(t, e)
		}

		mustApply(t, e, filesOf("/etc/foo", "3"))
		for _, name := range []string{"etc/left", "var/left", "etc/systemd/system/fails.service"} {
			if !absent(n, name) {
				t.Errorf("judged %t: %s is still there", judged, name)
			}
		}
	}
}

// plainDocument has a kubelet, and neither an annotation nor criConfig.
const plainDocument = `apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: plain}
spec:
  purpose: reconcile
  units:
  - {name: containerd.service, command: start}
  - name: kubelet.service
    command: start
    content: |
      [Service]
      ExecStart=/opt/bin/kubelet
      [Install]
      WantedBy=multi-user.target
    filePaths: [/var/lib/kubelet/config]
  files:
  - {path: /var/lib/kubelet/config, content: {inline: {data: "kind: KubeletConfiguration"}}}
`

func plain(t *testing.T) config.Desired {
	t.Helper()
	document, err := osc.Decode("plain", []byte(plainDocument))
	if err != nil {
		t.Fatal(err)
	}

	d, err := osc.Merge(document, osc.Env{Hostname: "node"})
	if err != nil {
		t.Fatal(err)
	}

	return d
}

// withContainerd is a node whose image has containerd.
func withContainerd(t *testing.T) node {
	t.Helper()
	n, fake := fakeNode(t)
	put(t, node{root: n.image}, "usr/lib/systemd/system/containerd.service", sleeper)
	if err := fake.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWeakPoint03DocumentWithoutAChecksumIsApplied(t *testing.T) {
	n := withContainerd(t)
	e := n.executor(t, nil)
	mustApply(t, e, plain(t))
	accept(t, e)

	if got := read(t, n, "var/lib/kubelet/config"); got != "kind: KubeletConfiguration" {
		t.Errorf("the file has %q", got)
	}
	if p, err := e.Plan(t.Context(), plain(t), "test"); err != nil || !p.Empty() {
		t.Errorf("what is recorded is not what was applied: %v %v", p, err)
	}
}

func TestWeakPoint04TornStateFilesDoNotWedge(t *testing.T) {
	for _, name := range []string{
		"journal.json", "history.jsonl", "held.json", "os-version", "manifest.json",
	} {
		for _, text := range []string{"", `{"to":"00`} {
			n, _ := fakeNode(t)
			e := n.executor(t, nil)
			mustApply(t, e, filesOf("/etc/foo", "1"))
			accept(t, e)
			current := mustApply(t, e, filesOf("/etc/foo", "2"))
			file := "var/lib/loam/" + name

			if name == "manifest.json" {
				file = "var/lib/loam/generations/" + current + "/" + name
			}

			put(t, n, file, text)
			e = n.executor(t, nil)
			if _, err := e.Resume(t.Context()); err != nil {
				t.Errorf("%s is %q: resume: %v", name, text, err)
			}

			mustApply(t, e, filesOf("/etc/foo", "3"))
			accept(t, e)
		}
	}
}

func TestWeakPoint05DriftIsRepaired(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	mustApply(t, e, filesOf("/etc/foo", "1", "/var/foo", "1"))
	accept(t, e)

	paths := []string{"/etc/foo", "/var/foo"}
	for _, repair := range []func() ([]string, error){
		func() ([]string, error) { return e.Repair(t.Context(), paths, nil) },
		func() ([]string, error) { r, err := e.Resume(t.Context()); return r.Repaired, err },
	} {
		if err := n.root.Remove("etc/foo"); err != nil {
			t.Fatal(err)
		}
		put(t, n, "var/foo", "drift")
		if did, err := repair(); err != nil || !slices.Equal(did, paths) {
			t.Errorf("repaired %v %v", did, err)
		}
		if read(t, n, "var/foo") != "1" || absent(n, "etc/foo") {
			t.Error("it was not repaired")
		}
	}
}

func TestWeakPoint07ErrorOfAnObservationEndsNothing(t *testing.T) {
	n, fake := fakeNode(t)
	broken := errors.New("connection reset")
	fake.Broken = broken

	e := n.executor(t, nil)
	if _, err := e.Apply(t.Context(), request(first())); err == nil ||
		!strings.Contains(err.Error(), "observe units: connection reset") {
		t.Errorf("apply: %v", err)
	}

	if _, ok, err := e.Current(); ok || err != nil || !absent(n, "etc/app") {
		t.Errorf("something was touched: %v", err)
	}

	fake.Broken = nil
	mustApply(t, e, first())

	fake.Broken = broken
	if v, err := e.Judge(t.Context()); !errors.Is(err, broken) || v.Word != "" {
		t.Errorf("a verdict of nothing: %+v %v", v, err)
	}

	fake.Broken = nil
	for _, odd := range []unit.State{
		{},
		{Load: "bad-setting"},
		{Active: "maintenance"},
		{Active: "failed", Restarts: 1 << 20},
	} {
		fake.Set("one.service", odd)
		if _, err := e.Judge(t.Context()); err != nil {
			t.Errorf("a unit that is %+v: %v", odd, err)
		}
	}

	mustApply(t, e, second())
	accept(t, e)
}

func TestWeakPoint08NoClusterIsNeeded(t *testing.T) {
	n := withContainerd(t)
	e := n.executor(t, nil) // It has no field for a cluster, a Node or a lease.
	mustApply(t, e, plain(t))
	if s := show(t, n, "kubelet.service"); !s.Running() {
		t.Errorf("kubelet: %+v", s)
	}
	if v := verdict(t, e); v.Word != health.Good {
		t.Errorf("verdict: %+v", v)
	}
}

func TestWeakPoint09NoFailureIsMasked(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	mustApply(t, e, unitsOf(ownUnit("a.service", sleeper)))
	accept(t, e)
	e = executor.With(e, func(c *apply.Config) { c.Steady = 10 * time.Second })

	_, err := e.Apply(t.Context(),
		request(unitsOf(ownUnit("a.service", crasher), ownUnit("b.service", crasher))))
	for _, name := range []string{"restart a.service: failed", "start b.service: failed"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not in: %v", name, err)
		}
	}

	v := verdict(t, e)
	if v.Word != health.Bad ||
		!strings.Contains(v.Reason, "a.service failed: exit-code, exit code 3") {
		t.Errorf("verdict: %+v", v)
	}

	history, err := apply.History(e.Config().State.Root().FS())
	if err != nil || len(history) == 0 ||
		!strings.Contains(history[len(history)-1].Reason, "exit code 3") {
		t.Errorf("history: %+v %v", history, err)
	}
}

func TestWeakPoint10ContainerdKeepsRunningWithoutCriConfig(t *testing.T) {
	n := withContainerd(t)
	if err := n.units.Start(t.Context(), "containerd.service"); err != nil {
		t.Fatal(err)
	}
	before := show(t, n, "containerd.service").InvocationID
	mustApply(t, n.executor(t, nil), plain(t))
	if after := show(t, n, "containerd.service"); !after.Running() || after.InvocationID != before {
		t.Errorf("containerd was restarted: %+v", after)
	}
}

func TestWeakPoint10cMissingDocumentIsReported(t *testing.T) {
	missing := t.TempDir() + "/osc.yaml"
	_, err := source.New(settings.Source{File: &settings.File{Path: missing}},
		source.Env{}).Read(t.Context())
	if !errors.Is(err, source.ErrAbsent) || !strings.Contains(err.Error(), missing) {
		t.Errorf("error: %v", err)
	}
}
