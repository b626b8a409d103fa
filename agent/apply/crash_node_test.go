package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/test/power"
)

const (
	stateDir     = "var/lib/loam"
	crashVersion = "0.1.0"
)

// volatile is what a power cut takes whatever was synced: tmpfs, and the
// overlay of /etc.
var volatile = []string{"etc", "run"}

// crashNode is a node whose power can be cut.
type crashNode struct {
	root, state, image *os.Root
	systemd            *crashSystemd
	boots              int
	hook               func(dir string) durable.Hook
}

// crashImage is the image of all crash tests. It is not changed.
func crashImage(t testing.TB) *os.Root {
	t.Helper()
	dir := scratch(t)
	put := func(name, text string) {
		if err := errors.Join(os.MkdirAll(path.Dir(dir+"/"+name), 0o755), os.WriteFile(dir+"/"+name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("usr/lib/systemd/system/containerd.service", "[Service]\nEnvironmentFile=/etc/default/containerd\n[Install]\nWantedBy=multi-user.target\n")
	put("usr/lib/systemd/system/systemd-journald.service", "[Service]\n")
	put("usr/lib/systemd/system/plain.service", "[Service]\n[Install]\nWantedBy=multi-user.target\n")
	put("etc/issue", "of the image\n")
	put("etc/default/containerd", "A=image\n")
	for link, target := range map[string]string{
		"etc/localtime": "/usr/share/zoneinfo/UTC",
		"usr/lib/systemd/system/multi-user.target.wants/containerd.service":       "../containerd.service",
		"usr/lib/systemd/system/multi-user.target.wants/systemd-journald.service": "../systemd-journald.service",
	} {
		if err := errors.Join(os.MkdirAll(path.Dir(dir+"/"+link), 0o755), os.Symlink(target, dir+"/"+link)); err != nil {
			t.Fatal(err)
		}
	}
	return openRoot(t, dir)
}

// scratch is a directory in memory, where there is one: fsync costs nothing
// there.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "loam-crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// newCrashNode is a node that has booted and whose agent has started for the
// first time.
func newCrashNode(t testing.TB, image *os.Root) *crashNode {
	t.Helper()
	dir := scratch(t)
	for _, name := range []string{stateDir, "var/opt", "var/lib/db", "etc", "run"} {
		if err := os.MkdirAll(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("var/opt", dir+"/opt"), os.WriteFile(dir+"/var/lib/db/data", []byte("not ours"), 0o600)); err != nil {
		t.Fatal(err)
	}
	n, err := openCrashNode(dir, image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	if err := n.powerOn(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.executor().Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

func openCrashNode(dir string, image *os.Root) (*crashNode, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	state, err := root.OpenRoot(stateDir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &crashNode{
		root: root, state: state, image: image, systemd: &crashSystemd{root: dir, image: image.Name()},
		hook: func(string) durable.Hook { return nil },
	}, nil
}

func (n *crashNode) close() { n.root.Close(); n.state.Close() }

func (n *crashNode) bootID() string { return fmt.Sprintf("boot-%d", n.boots) }

// executor is that of a new agent.
func (n *crashNode) executor() *apply.Executor {
	return &apply.Executor{
		State: durable.New(n.state, n.hook(stateDir)), Node: durable.New(n.root, n.hook("")), Image: n.image.FS(), Units: n.systemd,
		OSVersion: crashVersion, BootID: n.bootID(), JobWait: time.Minute, Limit: time.Minute,
		Now: func() time.Time { return time.Unix(0, 0) }, Uptime: func() time.Duration { return time.Hour },
	}
}

// record has all that is done to the node recorded from now on. base is what
// its disk has, and may lose.
func (n *crashNode) record(base *power.Disk) *power.Recorder {
	r := power.NewRecorder(n.root, base)
	r.Note = func() any { return n.systemd.keep() }
	n.systemd.mark = r.Mark
	n.hook = r.Hook
	return r
}

// powerOn is what /init does of a boot that bears on the configuration
// (agent/boot, buildEtc), and then systemd's part. /etc and /run are empty.
func (n *crashNode) powerOn() error {
	n.boots++
	if err := errors.Join(n.copyEtc(), n.root.MkdirAll("run/loam", 0o755),
		n.root.Symlink(generation.CurrentTarget(n.root.FS(), crashVersion), generation.Link[1:])); err != nil {
		return err
	}
	store := generation.Open(durable.New(n.state, n.hook(stateDir)))
	if err := n.goBack(store); err != nil {
		return err
	}
	if err := n.fillEtc(store.Reader); err != nil {
		return err
	}
	n.systemd.boot()
	return nil
}

func (n *crashNode) goBack(store *generation.Store) error {
	current, ok, err := store.Current(crashVersion)
	if errors.Is(err, generation.ErrTorn) || err == nil && !ok {
		return nil // /init goes on without a configuration.
	}
	if err != nil {
		return err
	}
	j, ok, err := store.Journal()
	if err != nil || !ok {
		return err
	}
	next, back := j.AtBoot(n.bootID(), current.Name())
	if next.Boots == j.Boots {
		return nil
	}
	if err := store.WriteJournal(next); err != nil || !back {
		return err
	}
	return store.Activate(crashVersion, next.To)
}

func (n *crashNode) fillEtc(store generation.Reader) error {
	m, ok, err := store.Current(crashVersion)
	if !ok {
		return nil
	}
	if err != nil {
		return err
	}
	dir := durable.New(n.root, nil)
	for _, p := range generation.Place(m) {
		if strings.HasPrefix(p.Path, "/etc/") {
			_, _ = generation.Put(dir, p, store) // /init goes on as well.
		}
	}
	return nil
}

// copyEtc gives a new /etc all of the image's; os.CopyFS refuses links to
// absolute names.
func (n *crashNode) copyEtc() error {
	if err := n.root.MkdirAll("etc", 0o755); err != nil {
		return err
	}
	return fs.WalkDir(n.image.FS(), "etc", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == "etc":
			return err
		case entry.IsDir():
			return n.root.Mkdir(name, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := n.image.Readlink(name)
			return errors.Join(err, n.root.Symlink(target, name))
		}
		text, err := n.image.ReadFile(name)
		return errors.Join(err, n.root.WriteFile(name, text, 0o644))
	})
}
