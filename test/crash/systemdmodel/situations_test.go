package systemdmodel_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/files"
)

// TestSituations is what matters by name, on real systemd. Each begins on a
// node of its own with an empty configuration.
func TestSituations(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name string
		test func(*testing.T, stage)
	}{
		{"a unit of the image gains and loses a drop-in", vendorDropIn},
		{"an instance changes through its template", throughTemplate},
		{"a timer and its service", timerAndService},
		{"a service that a timer starts, and a target", rotatingLogs},
		{"a path and its service", pathAndService},
		{"a disabled service that a timer starts", disabledOnDemand},
		{"a socket changes while its service is up", socketOfRunning},
		{"an alias, listed under both names", underBothNames},
		{"a unit that the image masks", maskedByImage},
		{"a unit takes long to start", slowStart},
		{"a unit fails a second after it started", failsLater},
		{"a unit never stays up", neverStaysUp},
		{"a unit is to be stopped", toBeStopped},
		{"what was broken before does not count", brokenBefore},
		{"a unit that was never well takes nothing back", neverWell},
		{"what waits for a token comes up when that arrives", waitsForToken},
		{"containerd before kubelet", runtimeFirst},
		{"what the kubelet keeps stays mounted", kubeletMount},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			onMachine(t, func(t *testing.T, m machine) {
				begin := stage{m, m.executor(t)}
				begin.apply(t, config.Desired{})
				s.test(t, begin)
			})
		})
	}
}

// stage is a machine and the executor that changes it.
type stage struct {
	machine
	e *apply.Executor
}

// apply goes on to d, and returns what became of the units. The change must be
// good.
func (s stage) apply(t *testing.T, d config.Desired) outcome {
	t.Helper()
	before := s.snapshot(t)
	p, err := s.e.Plan(t.Context(), d, "test")
	if err != nil {
		t.Fatal(err)
	}

	s.reloads.count = 0
	if _, err := s.e.Apply(t.Context(), request(d)); err != nil {
		t.Fatal(err)
	}
	if v := s.judged(t, s.e); v.Word != health.Good {
		t.Fatalf("verdict: %+v", v)
	}
	if want := map[bool]int{true: 1}[p.Reload]; s.reloads.count != want {
		t.Errorf("%d daemon-reloads, not %d", s.reloads.count, want)
	}

	after := s.snapshot(t)
	did := became(before, after)
	if diff := cmp.Diff(planned(p, before, after), did); diff != "" {
		t.Errorf("what was planned, and what became of units (-planned +did):\n%s", diff)
	}

	return did
}

// becomes goes on to d and compares what became of units.
func (s stage) becomes(t *testing.T, d config.Desired, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want, s.apply(t, d)); diff != "" {
		t.Errorf("what became of units (-want +got):\n%s", diff)
	}
}

// owes fails the test unless the node owes these units a start.
func (s stage) owes(t *testing.T, want ...string) {
	t.Helper()
	if got, err := s.e.Owed(); err != nil || !slices.Equal(got, want) {
		t.Errorf("owed %v %v, not %v", got, err, want)
	}
}

func unitsOf(units ...config.Unit) config.Desired { return config.Desired{Units: units} }

func ownUnit(name, content string) config.Unit { return config.Unit{Name: name, Content: &content} }

func withDropIn(u config.Unit, text string) config.Unit {
	u.DropIns = []config.DropIn{{Name: "10-a.conf", Content: text}}
	return u
}

func vendorDropIn(t *testing.T, s stage) {
	journald := config.Unit{Name: "systemd-journald.service"}
	s.becomes(
		t,
		unitsOf(withDropIn(journald, "[Service]\nEnvironment=A=1\n")),
		outcome{journald.Name: "new"},
	)
	got := strings.Join(s.show(t, journald.Name).DropInPaths, " ")
	if got != "/etc/systemd/system/systemd-journald.service.d/10-a.conf" {
		t.Errorf("drop-ins: %s", got)
	}

	s.becomes(t, unitsOf(), outcome{journald.Name: "new"})
	stale := strings.TrimSpace(s.Command(
		t,
		"systemctl",
		"show",
		"-P",
		"NeedDaemonReload",
		journald.Name,
	))
	if left := s.show(t, journald.Name); len(left.DropInPaths) > 0 || stale != "no" {
		t.Errorf("afterwards, stale %s: %+v", stale, left)
	}
}

func throughTemplate(t *testing.T, s stage) {
	one, two := config.Unit{Name: "many@1.service"}, config.Unit{Name: "many@2.service"}
	d := func(text string) config.Desired {
		return unitsOf(
			ownUnit("many@.service", text),
			one,
			two,
		)
	}
	s.becomes(t, d(sleeper), outcome{one.Name: "new", two.Name: "new"})
	s.becomes(t, d(sleeper+"# other\n"), outcome{one.Name: "new", two.Name: "new"})
	two = withDropIn(two, "[Service]\nEnvironment=A=1\n")
	s.becomes(t, d(sleeper+"# other\n"), outcome{two.Name: "new"})
}

func timerAndService(t *testing.T, s stage) {
	d := func(timer, service string) config.Desired {
		return unitsOf(
			ownUnit("c.service", once+service),
			ownUnit("c.timer",
				"[Timer]\nOnActiveSec=1d\n"+timer+"[Install]\nWantedBy=timers.target\n"),
		)
	}
	s.becomes(t, d("", ""), outcome{"c.timer": "new", "c.service": "new"})
	s.becomes(t, d("", "# other\n"), outcome{"c.service": "new"})
	s.becomes(t, d("# other\n", "# other\n"), outcome{"c.timer": "new"})
	s.trigger(t, "c")
	s.becomes(t, d("# other\n", "# other\n"), outcome{})
}

// rotatingLogs is containerd-logrotate.service of a Shoot: wanted by a target,
// it ends by itself, and a timer starts it again.
func rotatingLogs(t *testing.T, s stage) {
	service := ownUnit(
		"c.service",
		"[Service]\nType=simple\nExecStart=sh -c 'echo >>/run/pairs-ran-c.service'\n[Install]\nWantedBy=multi-user.target\n",
	)
	timer := ownUnit("c.timer", "[Timer]\nOnActiveSec=1d\n[Install]\nWantedBy=timers.target\n")
	s.becomes(t, unitsOf(service, timer), outcome{"c.timer": "new", "c.service": "new"})
	s.await(t, "c.service", "inactive")
	other := ownUnit("s0.service", sleeper)
	s.becomes(t, unitsOf(service, timer, other), outcome{other.Name: "new"})
}

// pathAndService is gardener-user.service of a Shoot: what its path unit
// watches is there before the path unit is, so that nothing but the change
// starts it.
func pathAndService(t *testing.T, s stage) {
	d := func(content string) config.Desired {
		d := unitsOf(
			ownUnit("p.service", once),
			ownUnit("p.path",
				"[Path]\nPathChanged=/var/lib/pairs/key\n[Install]\nWantedBy=paths.target\n"),
		)
		d.Files = []config.File{{
			Path:    "/var/lib/pairs/key",
			Mode:    0o600,
			Content: config.Text(content),
		}}
		return d
	}
	s.becomes(t, d("one\n"), outcome{"p.path": "new", "p.service": "new"})
	ran := s.size("run/pairs-ran-p.service")

	// Another key is the path unit's to see, and a listed file of neither.
	if _, err := s.e.Apply(t.Context(), request(d("two\n"))); err != nil {
		t.Fatal(err)
	}
	s.until(t, "p.service", func() bool { return s.size("run/pairs-ran-p.service") == ran+1 })
	if v := s.judged(t, s.e); v.Word != health.Good {
		t.Errorf("verdict: %+v", v)
	}
}

// disabledOnDemand is opentelemetry-collector-healthcheck.service of a Shoot:
// disabled, although its command is start, and started by its timer. It may
// fail.
func disabledOnDemand(t *testing.T, s stage) {
	no := false
	check := ownUnit("c.service", "[Service]\nType=oneshot\nExecStart=sh -c 'exit 3'\n")
	check.Enable, check.Command = &no, config.CommandStart
	timer := ownUnit("c.timer", "[Timer]\nOnActiveSec=1d\n[Install]\nWantedBy=timers.target\n")
	s.becomes(t, unitsOf(check, timer), outcome{"c.timer": "new"})
	if err := s.systemd.Start(t.Context(), "c.service"); err == nil {
		t.Error("a check that fails succeeded")
	}

	s.becomes(
		t,
		unitsOf(check, timer, ownUnit("s0.service", sleeper)),
		outcome{"s0.service": "new"},
	)
}

func socketOfRunning(t *testing.T, s stage) {
	d := func(socket, service string) config.Desired {
		return unitsOf(ownUnit("k.service", "[Service]\nExecStart=sleep infinity\n"+service),
			ownUnit(
				"k.socket",
				socket+"[Socket]\nListenStream=/run/pairs.sock\nFlushPending=yes\n[Install]\nWantedBy=sockets.target\n",
			))
	}
	s.becomes(t, d("", ""), outcome{"k.socket": "new"})
	s.trigger(t, "k")
	s.becomes(t, d("# other\n", ""), outcome{"k.socket": "new", "k.service": "stopped"})
	s.trigger(t, "k")
	s.becomes(t, d("# other\n", "# other\n"), outcome{"k.service": "new"})
	const wanted = "[Install]\nWantedBy=multi-user.target\n"
	s.becomes(t, d("# third\n", wanted), outcome{"k.socket": "new", "k.service": "new"})
	s.becomes(t, d("# fourth\n", wanted), outcome{"k.socket": "new", "k.service": "new"})
}

func underBothNames(t *testing.T, s stage) {
	real, alias := ownUnit("real.service",
		sleeper+"Alias=alias.service\n"), config.Unit{Name: "alias.service"}
	s.becomes(t, unitsOf(real), outcome{"real.service": "new"})
	if id := s.show(t, "alias.service").ID; id != "real.service" {
		t.Errorf("the alias belongs to %s", id)
	}

	s.becomes(t, unitsOf(alias, real), outcome{})
	s.becomes(
		t,
		unitsOf(withDropIn(alias, "[Service]\nEnvironment=A=1\n"), real),
		outcome{"real.service": "new"},
	)
	s.becomes(t, unitsOf(real), outcome{"real.service": "new"})
	s.becomes(t, unitsOf(alias, real), outcome{})
	s.becomes(t, unitsOf(), outcome{"real.service": "stopped"})
}

func maskedByImage(t *testing.T, s stage) {
	image := files.Root(t)

	err := errors.Join(
		image.MkdirAll("usr/lib/systemd/system", 0o755),
		image.WriteFile("usr/lib/systemd/system/plain.service", []byte(sleeper), 0o644),
		image.Symlink("/dev/null", "usr/lib/systemd/system/masked.service"),
	)
	if err != nil {
		t.Fatal(err)
	}

	// An image does not change while an agent runs.
	s.image = image
	s.e = s.executor(t)
	before, _, _ := s.e.Current()
	s.reloads.count = 0
	var wrong *generation.Error
	_, err = s.e.Apply(
		t.Context(),
		request(unitsOf(config.Unit{Name: "masked.service"}, ownUnit("new.service", sleeper))),
	)
	if !errors.As(err, &wrong) || wrong.Unit != "masked.service" ||
		!strings.Contains(err.Error(), "the image masks masked.service") {
		t.Errorf("error: %v", err)
	}

	after, _, _ := s.e.Current()
	if before.Name() != after.Name() || s.reloads.count != 0 ||
		!s.absent("etc/systemd/system/new.service") {
		t.Errorf("something was touched: now %s, %d daemon-reloads", after.Name(), s.reloads.count)
	}
}

// steady has a change prove itself for so long from now on.
func (s *stage) steady(d time.Duration) {
	s.e = executor.With(s.e, func(c *apply.Config) { c.Steady = d })
}

func slowStart(t *testing.T, s stage) {
	slow := "[Service]\nExecStartPre=sleep 3\nExecStart=sleep infinity\n"
	s.apply(t, unitsOf(ownUnit("slow.service", sleeper)))
	s.e = executor.With(s.e, func(c *apply.Config) { c.JobWait = time.Second })
	_, err := s.e.Apply(t.Context(), request(unitsOf(ownUnit("slow.service", slow))))
	if err == nil || !strings.Contains(err.Error(), "restart slow.service: not done after 1s") {
		t.Errorf("a job that takes longer than is waited for: %v", err)
	}
	if v := s.judged(t, s.e); v.Word != health.Good || !s.show(t, "slow.service").Running() {
		t.Errorf("it was given the time: %+v", v)
	}
	s.e = executor.With(s.e, func(c *apply.Config) { c.JobWait = time.Minute })
	s.becomes(t, unitsOf(ownUnit("slow.service", slow+"# other\n")), outcome{"slow.service": "new"})
}

// takenBack applies d, which is not good, and checks the reason of the verdict.
func (s stage) takenBack(t *testing.T, d config.Desired, why string) {
	t.Helper()
	before, _, err := s.e.Current()
	if err != nil {
		t.Fatal(err)
	}

	s.steady(time.Hour) // It must become bad before it is good.
	if _, err := s.e.Apply(t.Context(), request(d)); err != nil {
		t.Fatal(err)
	}
	if v := s.judged(t, s.e); v.Word != health.Bad || !strings.Contains(v.Reason, why) {
		t.Errorf("verdict: %+v", v)
	}
	if after, _, err := s.e.Current(); err != nil || after.Name() != before.Name() {
		t.Errorf("afterwards the node has %s, not %s: %v", after.Name(), before.Name(), err)
	}
	if held, ok, err := s.e.Held(d.Digest()); !ok || err != nil ||
		!strings.Contains(held.Why, why) {
		t.Errorf("held: %+v %v %v", held, ok, err)
	}

	history, err := apply.History(s.e.Config().State.Root().FS())
	if err != nil || len(history) == 0 {
		t.Fatal(err)
	}
	if last := history[len(history)-1]; last.Outcome != apply.Reverted ||
		last.Generation != before.Name() || !strings.Contains(last.Reason, why) {
		t.Errorf("history: %+v", last)
	}
}

func failsLater(t *testing.T, s stage) {
	s.apply(t, unitsOf(ownUnit("late.service", sleeper)))
	s.takenBack(t, unitsOf(ownUnit("late.service",
		"[Service]\nExecStart=sh -c 'sleep 1; exit 3'\n")),
		"unit late.service failed: exit-code, exit code 3")
	if s := s.show(t, "late.service"); !s.Running() || s.ExitCode != 0 {
		t.Errorf("the unit from before does not run: %+v", s)
	}
}

func neverStaysUp(t *testing.T, s stage) {
	s.apply(t, unitsOf(ownUnit("loop.service", sleeper)))
	s.takenBack(t, unitsOf(ownUnit("loop.service",
		"[Service]\nRestart=always\nRestartSec=50ms\nExecStart=sh -c 'sleep 0.1'\n")),
		"unit loop.service does not stay up")
	if s := s.show(t, "loop.service"); !s.Running() {
		t.Errorf("the unit from before does not run: %+v", s)
	}
}

func toBeStopped(t *testing.T, s stage) {
	u := ownUnit("halt.service", sleeper)
	s.becomes(t, unitsOf(u), outcome{u.Name: "new"})
	u.Command = config.CommandStop
	s.becomes(t, unitsOf(u), outcome{u.Name: "stopped"})
	s.becomes(t, unitsOf(withDropIn(u, "[Service]\nEnvironment=A=1\n")), outcome{})
	u.Command = ""
	s.becomes(t, unitsOf(u), outcome{u.Name: "new"})
}

func brokenBefore(t *testing.T, s stage) {
	broken := ownUnit("broken.service", "[Service]\nType=oneshot\nExecStart=sh -c 'exit 3'\n")
	s.apply(
		t,
		unitsOf(
			ownUnit("fine.service", sleeper),
			ownUnit("broken.service", "[Service]\nExecStart=sleep infinity\n"),
		),
	)

	s.Command(t, "systemctl", "kill", "--signal=SIGABRT", "broken.service")
	s.await(t, "broken.service", "failed")
	d := unitsOf(broken, ownUnit("fine.service", sleeper+"# other\n"))
	if _, err := s.e.Apply(t.Context(), request(d)); err == nil {
		t.Error("a unit that cannot start is no error")
	}

	if v := s.judged(t, s.e); v.Word != health.Good {
		t.Errorf("a unit that was broken before counts against the change: %+v", v)
	}
}

// neverWell is sshd-ensurer.service of a Shoot where there is no sshd. The
// change that brings it stays, and so does the next.
func neverWell(t *testing.T, s stage) {
	fine := ownUnit("fine.service", sleeper)
	loop := ownUnit(
		"loop.service",
		"[Service]\nRestart=always\nRestartSec=50ms\nExecStart=sh -c 'exit 1'\n[Install]\nWantedBy=multi-user.target\n",
	)
	s.apply(t, unitsOf(fine))
	const steady = time.Hour
	s.steady(steady)
	for _, d := range []config.Desired{unitsOf(fine, loop), unitsOf(
		withDropIn(fine, "[Service]\nEnvironment=A=1\n"),
		loop,
	)} {
		if _, err := s.e.Apply(t.Context(), request(d)); err != nil {
			t.Fatal(err) // Its job is done when the process is there.
		}
		before := s.show(t, "loop.service").Restarts
		s.until(t, "loop.service", func() bool {
			if v, err := s.e.Judge(t.Context()); err != nil || v.Word != health.Wait {
				t.Fatalf("verdict: %+v %v", v, err)
			}
			return s.show(t, "loop.service").Restarts > before+3
		})
		s.clock.advance(steady)
		v := s.judged(t, s.e)
		if v.Word != health.Good || len(v.Unwell) != 1 ||
			!strings.Contains(v.Unwell[0].How, "does not stay up") {
			t.Errorf("verdict: %+v", v)
		}
		s.owes(t)
	}

	s.steady(0)
	if _, err := s.e.Apply(t.Context(), request(unitsOf(fine))); err != nil {
		t.Fatal(err) // It may restart once more before it stops.
	}
	s.judged(t, s.e)
}

// waitsForToken is opentelemetry-collector.service of a Shoot.
func waitsForToken(t *testing.T, s stage) {
	s.Command(t, "rm", "-f", "/run/pairs-token")
	collector := ownUnit(
		"collector.service",
		"[Service]\nRestart=always\nRestartSec=1d\nExecStartPre=sh -c 'test -s /run/pairs-token'\nExecStart=sleep infinity\n",
	)

	_, err := s.e.Apply(t.Context(), request(unitsOf(collector)))
	if !errors.As(err, new(*unit.JobError)) {
		t.Fatalf("a unit that cannot start: %v", err)
	}
	if v := s.judged(t, s.e); v.Word != health.Good || len(v.Unwell) != 1 {
		t.Errorf("verdict: %+v", v)
	}
	s.owes(t, "collector.service")

	s.put(t, "run/pairs-token", "secret")
	if left, err := s.e.Retry(t.Context()); err != nil || len(left) > 0 ||
		!s.show(t, "collector.service").Running() {
		t.Errorf("tried again: %v %v", left, err)
	}
	s.owes(t)
}

func runtimeFirst(t *testing.T, s stage) {
	for _, text := range []string{"", "# other\n"} {
		s.becomes(t, unitsOf(
			ownUnit("containerd.service",
				"[Service]\nExecStartPre=sleep 0.3\nExecStart=sleep infinity\n"+text),
			ownUnit("kubelet.service", sleeper+text),
		), outcome{"containerd.service": "new", "kubelet.service": "new"})
		up := s.microseconds(t, "containerd.service", "ActiveEnterTimestampMonotonic")

		began := s.microseconds(t, "kubelet.service", "InactiveExitTimestampMonotonic")
		if began < up {
			t.Errorf("kubelet was started %d µs before containerd was up", up-began)
		}
	}
}

// kubeletMount is var-lib-kubelet.mount of a Shoot, over a mount that is there,
// as Loam's own. The disk of the unit is not there: a job for it would wait.
func kubeletMount(t *testing.T, s stage) {
	const name = "var-lib-kubelet.mount"
	s.Command(t, "mkdir", "-p", "/var/lib/kubelet")
	s.Command(t, "mount", "-t", "tmpfs", "tmpfs", "/var/lib/kubelet")
	defer s.Command(t, "umount", "/var/lib/kubelet")
	s.await(t, name, "active")
	mounts := func() string {
		return s.Command(
			t,
			"grep",
			"/var/lib/kubelet",
			"/proc/self/mountinfo",
		)
	}
	before := mounts()

	unit := "[Unit]\nBefore=kubelet.service\n[Mount]\nWhat=/dev/disk/by-label/KUBEDEV\nWhere=/var/lib/kubelet\nType=ext4\n[Install]\nWantedBy=local-fs.target\n"
	for _, d := range []config.Desired{unitsOf(ownUnit(name, unit)), unitsOf(ownUnit(
		name,
		unit+"[Mount]\nOptions=prjquota\n",
	)), unitsOf()} {
		s.becomes(t, d, outcome{})
		if after := s.show(t, name); !after.Running() || after.Job || mounts() != before {
			t.Errorf("%+v, mounts %s, not %s", after, mounts(), before)
		}
	}
}

func (m machine) microseconds(t *testing.T, unit, property string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(
		strings.TrimSpace(m.Command(t, "systemctl", "show", "-P", property, unit)),
		10,
		64,
	)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
