package limits_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func names(used []status.Limit) []string {
	var all []string
	for _, l := range used {
		all = append(all, l.Name)
	}
	return all
}

func TestDecide(t *testing.T) {
	var last []status.Limit
	for _, step := range []struct {
		name string
		now  limits.Usage
		want bool
	}{
		{"nothing is known", limits.Usage{}, false},
		{"nearly used up", limits.Usage{Used: 949, Max: 1000}, false},
		{"used up", limits.Usage{Used: 950, Max: 1000}, true},
		{"a little less", limits.Usage{Used: 900, Max: 1000}, true},
		{"room again", limits.Usage{Used: 899, Max: 1000}, false},
		{"a little more", limits.Usage{Used: 900, Max: 1000}, false},
		{"refused", limits.Usage{Refused: true}, true},
		{"not refused", limits.Usage{}, false},
		{"no limit", limits.Usage{Used: 1 << 40, Max: 1<<63 - 1}, false},
	} {
		step.now.Name = limits.Threads
		last = limits.Decide(last, []limits.Usage{step.now})
		if got := len(last) > 0; got != step.want {
			t.Errorf("%s: %+v", step.name, last)
		}
		if len(last) > 0 && (last[0].Hint == "" || last[0].Code != fault.LimitReached) {
			t.Errorf("%s: %+v", step.name, last)
		}
	}
}

func TestALimitThatIsUsedUpIsOneNews(t *testing.T) {
	usage := func(used int64) []limits.Usage {
		return []limits.Usage{{Name: limits.Threads, Used: used, Max: 100}}
	}
	first := limits.Decide(nil, usage(98))
	if first[0].Problem != "98 of 100 threads are in use" {
		t.Errorf("%+v", first)
	}
	if again := limits.Decide(first, usage(99)); !slices.Equal(first, again) {
		t.Errorf("%+v became %+v", first, again)
	}
}

// A process may have a limit of its own, as that of its control group.
func TestTheProblemIsTheLimitThatRefuses(t *testing.T) {
	for _, tt := range []struct {
		now  limits.Usage
		want string
	}{
		{limits.Usage{Used: 96, Max: 100}, "96 of 100 threads are in use"},
		{limits.Usage{Used: 94, Max: 100, Refused: true}, "94 of 100 threads are in use"},
		{limits.Usage{Refused: true}, "the kernel gives no more threads"},
		{
			limits.Usage{Used: 20, Max: 100, Refused: true},
			"the kernel gives no more threads, although only 20 of 100 are in use",
		},
	} {
		tt.now.Name = limits.Threads
		used := limits.Decide(nil, []limits.Usage{tt.now})
		if len(used) != 1 || used[0].Problem != tt.want {
			t.Errorf("%+v: %+v, want %q", tt.now, used, tt.want)
		}
	}
}

// Pods may have nine tenths of the machine's threads, which then has room.
func TestPodsAtTheirLimit(t *testing.T) {
	now := []limits.Usage{
		{Name: limits.Threads, Used: 90500, Max: 100000},
		{Name: limits.PodThreads, Used: 90000, Max: 90000},
	}
	used := limits.Decide(nil, now)
	const want = "all pods together have 90000 of the 90000 threads that they may have"
	if len(used) != 1 || used[0].Problem != want || used[0].Code != fault.LimitReached ||
		!strings.Contains(used[0].Hint, "podPidsLimit") {
		t.Errorf("%+v", used)
	}

	// A slice without a limit, and a node without pods.
	for _, pids := range []fstest.MapFS{
		{
			"sys/fs/cgroup/kubepods.slice/pids.current": {Data: []byte("89000\n")},
			"sys/fs/cgroup/kubepods.slice/pids.max":     {Data: []byte("max\n")},
		},
		{},
	} {
		used := limits.Decide(nil, limits.Observe(pids, nil))
		if slices.Contains(names(used), string(limits.PodThreads)) {
			t.Errorf("%+v", used)
		}
	}
}

func TestExplains(t *testing.T) {
	for _, tt := range []struct {
		name limits.Name
		err  error
		want bool
	}{
		{limits.Threads, fmt.Errorf("start: %w", unix.EAGAIN), true},
		{limits.OwnFiles, unix.EMFILE, true},
		{limits.Instances, unix.EMFILE, true},
		{limits.Files, unix.EMFILE, false},
		{limits.Watches, unix.EAGAIN, false},
		{limits.PodThreads, unix.EAGAIN, false},
	} {
		used := []status.Limit{{Name: string(tt.name)}}
		if got := limits.Explains(used, tt.err); got != tt.want {
			t.Errorf("%s, %v: %t", tt.name, tt.err, got)
		}
	}
}

func TestObserveReadsWhatTheKernelCounts(t *testing.T) {
	root := fstest.MapFS{
		"proc/self/fd/0":               {},
		"proc/sys/fs/file-nr":          {Data: []byte("960\t10\t1000\n")},
		"proc/loadavg":                 {Data: []byte("0.20 0.18 0.12 1/70123 11206\n")},
		"proc/sys/kernel/threads-max":  {Data: []byte("100000\n")},
		"proc/sys/kernel/pid_max":      {Data: []byte("4194304\n")},
		"proc/sys/kernel/random/boot_": {},

		"sys/fs/cgroup/kubepods.slice/pids.current": {Data: []byte("89000\n")},
		"sys/fs/cgroup/kubepods.slice/pids.max":     {Data: []byte("90000\n")},
	}
	for _, u := range limits.Observe(root, nil) {
		switch u.Name {
		case limits.Files:
			if u.Used != 950 || u.Max != 1000 {
				t.Errorf("%+v", u)
			}
		case limits.Threads:
			if u.Used != 70123 || u.Max != 100000 || u.Refused {
				t.Errorf("%+v", u)
			}
		case limits.PodThreads:
			if u.Used != 89000 || u.Max != 90000 {
				t.Errorf("%+v", u)
			}
		case limits.OwnFiles:
			if u.Used != 1 || u.Max == 0 {
				t.Errorf("%+v", u)
			}
		}
	}

	used := limits.Decide(nil, limits.Observe(fstest.MapFS{}, nil,
		fmt.Errorf("not all are watched: %w", unix.ENOSPC), nil))
	if got := names(used); !slices.Contains(got, string(limits.Watches)) {
		t.Errorf("used up %q, while a watcher lacks watches", got)
	}
}

// ownVariable is set in the part of a test that has limits of its own.
const ownVariable = "LOAM_TEST_LIMITS"

// own runs the test in a process with a user namespace, and reports whether this is
// that process.
func own(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownVariable) != "" {
		return true
	}
	cmd := exec.Command("unshare", "--user", "--map-root-user", os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestInotifyUsedUp has the kernel refuse instances and watches to a watcher of
// managed paths, before it starts and later, and then give them.
func TestInotifyUsedUp(t *testing.T) {
	if !own(t) {
		return
	}
	set := func(t *testing.T, of limits.Name, value string) {
		t.Helper()
		name, _, _ := strings.Cut(string(of), " ")
		path := "/proc/sys/user/max_inotify_" + name
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, of := range []limits.Name{limits.Instances, limits.Watches} {
		t.Run(string(of), func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range []string{"a", "b"} {
				if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}

			w := drift.New()
			defer w.Close()
			set(t, of, "0")
			if err := w.Set(root, []string{"/a/x"}); fault.Of(err) != fault.LimitReached ||
				!strings.Contains(hint.Line(err), "sysctl fs.inotify.max_user_") {
				t.Errorf("at the start: %s", hint.Line(err))
			}
			saysSo(t, of, w.Err())

			set(t, of, "1000")
			passes(t, w)
			saysNothing(t, w.Err())

			set(t, limits.Watches, "0")
			if err := w.Set(root, []string{"/a/x", "/b/y"}); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("later: %v", err)
			}
			saysSo(t, limits.Watches, w.Err())

			set(t, limits.Watches, "1000")
			passes(t, w)
			saysNothing(t, w.Err())

			if err := os.WriteFile(filepath.Join(root, "b/y"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			for !slices.Contains(<-w.Events(), "/b/y") {
			}
		})
	}
}

// passes waits until a watcher lacks nothing. It reports all paths at each attempt.
func passes(t *testing.T, w *drift.Watcher) {
	t.Helper()
	for w.Err() != nil {
		if _, open := <-w.Events(); !open {
			t.Fatal("the watcher has ended")
		}
	}
}

func saysSo(t *testing.T, of limits.Name, lack error) {
	t.Helper()
	used := limits.Decide(nil, limits.Observe(os.DirFS("/"), nil, lack))
	if got := names(used); !slices.Equal(got, []string{string(of)}) {
		t.Errorf("used up %q, want %s", got, of)
	}
}

func saysNothing(t *testing.T, lack error) {
	t.Helper()
	if used := limits.Decide(nil, limits.Observe(os.DirFS("/"), nil, lack)); len(used) > 0 {
		t.Errorf("used up %+v", used)
	}
}

// A node with little room does not say each minute that there is none, and then that
// there is some.
func TestInotifyHasRoomAgainWhenThereIsSome(t *testing.T) {
	if !own(t) {
		return
	}
	for _, of := range []limits.Name{limits.Instances, limits.Watches} {
		t.Run(string(of), func(t *testing.T) {
			name, _, _ := strings.Cut(string(of), " ")
			path := "/proc/sys/user/max_inotify_" + name
			var used []status.Limit
			for _, step := range []struct {
				limit string
				want  bool
			}{{"3", false}, {"0", true}, {"3", true}, {"100", false}, {"3", false}} {
				if err := os.WriteFile(path, []byte(step.limit), 0o644); err != nil {
					t.Fatal(err)
				}
				used = limits.Decide(used, limits.Observe(os.DirFS("/"), used))
				if got := slices.Contains(names(used), string(of)); got != step.want || len(used) > 1 {
					t.Errorf("limit %s: %+v", step.limit, used)
				}
			}
		})
	}
}

// TestSpareFilesAreForWhatIsWritten has no room for another open file.
func TestSpareFilesAreForWhatIsWritten(t *testing.T) {
	if !own(t) {
		return
	}
	var spare limits.Spare
	if err := spare.Keep(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "status")
	few := unix.Rlimit{Cur: 64, Max: 4096}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer takeFiles(t)()

	write := func() error { return os.WriteFile(file, nil, 0o644) }
	for range 2 {
		if err := write(); !errors.Is(err, unix.EMFILE) {
			t.Errorf("without the spare room: %v", err)
		}
		if err := spare.Do(write); err != nil {
			t.Errorf("with it: %v", err)
		}
	}
	used := limits.Decide(nil, limits.Observe(os.DirFS("/"), nil))
	if got := names(used); !slices.Contains(got, string(limits.OwnFiles)) {
		t.Errorf("used up %q", got)
	}
	spare.Close()
}

// takeFiles leaves no room for another open file until its result is called.
func takeFiles(t *testing.T) (giveBack func()) {
	t.Helper()
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, f)
	}
	return func() {
		for _, f := range taken {
			f.Close()
		}
	}
}

func TestSpareFilesThatOthersTookAreKeptAgain(t *testing.T) {
	if !own(t) {
		return
	}
	var spare limits.Spare
	if err := spare.Keep(); err != nil {
		t.Fatal(err)
	}
	defer spare.Close()
	file := filepath.Join(t.TempDir(), "status")
	write := func() error { return os.WriteFile(file, nil, 0o644) }
	few := unix.Rlimit{Cur: 64, Max: 4096}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}

	// Others take the spare room while it is free.
	giveBack := takeFiles(t)
	giveBackSpare := func() {}
	err := spare.Do(func() error {
		err := write()
		if err == nil {
			giveBackSpare = takeFiles(t)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	giveBack()
	giveBackSpare()
	if err := spare.Do(write); err != nil {
		t.Fatal(err)
	}
	defer takeFiles(t)()
	if err := spare.Do(write); err != nil {
		t.Errorf("when there is no room again: %v", err)
	}
}

func TestNoThreads(t *testing.T) {
	used := limits.Usage{Name: limits.Threads, Used: 98, Max: 100}
	if err := limits.NoThreads(used); err != nil {
		t.Errorf("while the kernel gives them: %v", err)
	}
	used.Refused = true
	err := limits.NoThreads(used)
	if fault.Of(err) != fault.LimitReached || hint.Of(err) == "" {
		t.Errorf("%v", err)
	}
}
