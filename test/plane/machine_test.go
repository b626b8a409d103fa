package plane

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/cluster"
)

// hostTimeout is for a host that is busy: it is no expected time.
const hostTimeout = 2 * time.Minute

// built is the date of the kernel of the machine's image.
var built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// programs are the programs of a control plane.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// machine is a node with a control plane: a directory for its files, and a
// network of its own. Programs run with the flags that agent/plane renders, in
// which only the directories are others.
type machine struct {
	dir    string
	net    *namespace
	record plane.Record
	node   plane.Member
	store  pki.Store

	// ahead is how far its clock is ahead of the host's.
	ahead   time.Duration
	running map[string]*process
	admin   *client
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv("LOAM_BENCH_DIR"), "plane-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	n := networks{"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"}
	m := &machine{
		dir:     dir,
		net:     newNamespace(t, n.address+"/32"),
		record:  record(t, n),
		node:    node(n),
		running: map[string]*process{},
	}
	m.record.Audit.Policy = plane.AuditRequest
	m.node.Programs = filepath.Join(m.dir, "bin")
	m.node.Keys = pki.Files{Dir: filepath.Join(m.dir, "keys")}

	root, err := os.OpenRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	m.store = pki.NewStore(durable.New(root, nil), "keys")

	m.fill(t)
	t.Cleanup(func() { m.stop(t) })
	return m
}

// fill makes the directories of m, and links to the newest programs.
func (m *machine) fill(t testing.TB) {
	t.Helper()
	for _, dir := range []string{"bin", "log", "run", "state", "etc", plane.StateDirectory} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range programs {
		m.link(t, name, name)
	}
}

// link makes a program of package cluster the one of that name.
func (m *machine) link(t testing.TB, name, program string) {
	t.Helper()
	place := filepath.Join(m.node.Programs, name)
	if err := os.Remove(place); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink(cluster.Program(t, program), place); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) now() time.Time { return time.Now().Add(m.ahead) }

// boot renews what is due and starts etcd and the API server, as a node does
// before and when systemd starts. It returns what was renewed.
func (m *machine) boot(t testing.TB) []pki.Renewal {
	t.Helper()
	renewed := m.renew(t)
	m.newAdmin(t, pki.Times{Built: built, Now: m.now()})

	m.start(t, plane.Render(m.record, m.node), "etcd.service")
	m.startAPIServer(t)
	return renewed
}

// renew renews the certificates that are due.
func (m *machine) renew(t testing.TB) []pki.Renewal {
	t.Helper()
	leaves := pki.Leaves(m.record.Names(m.node.Name))
	renewed, err := m.store.Renew(leaves, m.record.Encrypted(), pki.Times{Built: built, Now: m.now()})
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}

// startAPIServer starts the API server, which finds etcd, and waits until it is
// ready.
func (m *machine) startAPIServer(t testing.TB) {
	t.Helper()
	desired := plane.Render(m.record, m.node)
	for _, f := range desired.Files {
		place := filepath.Join(m.dir, "etc", filepath.Base(f.Path))
		text := m.moved(contentOf(t, f.Content))
		if err := os.WriteFile(place, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.start(t, desired, "kube-apiserver.service")
	m.awaitReady(t)
}

// prove says that what last started is no longer on trial.
func (m *machine) prove(t testing.TB) {
	t.Helper()
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := plane.NewStore(durable.New(root, nil)).KeepProven(); err != nil {
		t.Fatal(err)
	}
}

// startControllers starts what waits for the API server.
func (m *machine) startControllers(t testing.TB) {
	t.Helper()
	desired := plane.Render(m.record, m.node)
	m.start(t, desired, "kube-controller-manager.service")
	m.start(t, desired, "kube-scheduler.service")
}

// moved returns a text in which the directories of a node are those of m.
func (m *machine) moved(text string) string {
	return strings.NewReplacer(
		"/etc/kubernetes", m.dir+"/etc",
		"/var/lib/etcd", m.dir+"/state",
		"/var/log/kubernetes", m.dir+"/log",
		"/run/etcd.env", m.dir+"/run/etcd.env",
		"/run/kube-controller-manager", m.dir+"/run",
		plane.StateDirectory, m.dir+plane.StateDirectory,
	).Replace(text)
}

func (m *machine) log(unit string) string { return filepath.Join(m.dir, "log", unit) }

// stop cuts the power: all programs end at once.
func (m *machine) stop(t testing.TB) {
	for unit, p := range m.running {
		_ = p.cmd.Process.Kill() // It may have ended.
		<-p.exited
		if t.Failed() {
			t.Logf("%s, the end of its log:\n%s", unit, logEnd(m.log(unit)))
		}
	}
	clear(m.running)
	if m.admin != nil {
		m.admin.CloseIdleConnections()
	}
}

func logEnd(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// newAdmin makes the client of an administrator.
func (m *machine) newAdmin(t testing.TB, times pki.Times) {
	t.Helper()
	m.admin = newClient(t, m.store, times, m.net, m.now)
}

// do sends a request to the API server.
func (m *machine) do(ctx context.Context, method, path, body string) (answer, error) {
	return m.admin.do(ctx, method, path, body)
}

// must is do, which must succeed.
func (m *machine) must(t testing.TB, method, path, body string) answer {
	t.Helper()
	a, err := m.do(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// await asks until ready returns nil: no program here announces that it is
// ready.
func (m *machine) await(t testing.TB, what string, ready func(context.Context) error) {
	t.Helper()
	poll(t, what, func(ctx context.Context) error {
		err := ready(ctx)
		if end := m.ended(); err != nil && end != nil {
			t.Fatalf("%s: %v; %v", what, err, end)
		}
		return err
	})
}

// poll calls ready until it returns nil.
func poll(t testing.TB, what string, ready func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hostTimeout)
	defer cancel()

	for pause := 20 * time.Millisecond; ; pause = min(pause*6/5, 100*time.Millisecond) {
		err := ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// awaitReady waits until the API server is ready.
func (m *machine) awaitReady(t testing.TB) {
	t.Helper()
	m.await(t, "the API server", func(ctx context.Context) error {
		_, err := m.do(ctx, http.MethodGet, "/readyz", "")
		return err
	})
}

// onDisk reports whether the files of etcd have a text.
func (m *machine) onDisk(t testing.TB, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(m.dir+"/state", func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		found = found || bytes.Contains(content, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
