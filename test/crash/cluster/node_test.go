package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/test/power"
)

const (
	stateDir  = "var/lib/loam"
	osVersion = "0.1.0"

	// version is what the cluster begins with, and newVersion what it changes to.
	version    = "1.37.2"
	newVersion = "1.37.3"
)

// volatile is what a power cut takes whatever was synced: the overlay of /etc, and tmpfs.
var volatile = []string{"etc", "run"}

// built is the date of the kernel of the image.
var built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// The clock when the cluster is made, and when all certificates are due.
var (
	early = built.AddDate(0, 1, 0)
	late  = built.AddDate(5, 0, 0)
)

// clusterNode is a machine whose machine.yaml has cluster.init, and whose power can be cut.
type clusterNode struct {
	root, state, image *os.Root
	systemd            *clusterSystemd
	now                time.Time
	boots              int
	hook               func(dir string) durable.Hook
}

// agent is what an agent has from its start on.
type agent struct {
	node     *clusterNode
	store    plane.Store
	executor *apply.Executor
	plane    *local.Follower
}

// first is the record of machine.yaml.
func first() plane.Record { return plane.NewRecord(plane.Settings{Name: "plant-7"}) }

// newNode returns a machine that was installed, and has the programs.
func newNode(t testing.TB, image *os.Root) *clusterNode {
	t.Helper()
	dir := scratch(t)
	for _, v := range []string{version, newVersion} {
		writeBundle(t, path.Join(dir, bundle.Directory, v), v)
	}
	for _, name := range []string{"etc", "run", "var/lib/private"} {
		if err := os.MkdirAll(path.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	n, err := openNode(dir, image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	return n
}

// scratch returns a directory in memory, where there is one: fsync costs nothing there.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := makeScratch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func makeScratch() (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "loam-cluster-")
	if err != nil {
		return os.MkdirTemp("", "loam-cluster-")
	}
	return dir, nil
}

// newImage returns what the image has of what is rendered.
func newImage(t testing.TB) *os.Root {
	t.Helper()
	dir := scratch(t)
	units := path.Join(dir, "usr/lib/systemd/system")
	err := errors.Join(
		os.MkdirAll(units, 0o755),
		os.WriteFile(path.Join(units, "containerd.service"),
			[]byte("[Service]\nExecStart=/usr/bin/containerd\n"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// writeBundle makes a bundle in which programs are empty, except for etcd, which prints
// its version.
func writeBundle(t testing.TB, dir, version string) {
	t.Helper()
	write := func(name, text string, mode os.FileMode) {
		name = path.Join(dir, name)
		err := errors.Join(os.MkdirAll(path.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode))
		if err != nil {
			t.Fatal(err)
		}
	}

	d := bundle.Description{Format: bundle.Format, Version: version, Arch: runtime.GOARCH}
	for _, name := range bundle.Programs {
		text := ""
		if name == "etcd" {
			text = "#!/bin/sh\necho etcd Version: " + etcdVersion + "\n"
		}
		write("bin/"+name, text, 0o755)
		d.Files = append(d.Files, bundle.File{Name: "bin/" + name, Size: int64(len(text))})
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	write("bundle.json", string(text), 0o644)

	var images []string
	for i, name := range []string{"coredns:v1", "pause:3.10.1"} {
		images = append(images, fmt.Sprintf(`{"digest": "sha256:%d",
			"annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/%s"}}`, i, name))
	}
	write("images/index.json", `{"manifests": [`+strings.Join(images, ",")+`]}`, 0o644)
}

func openNode(dir string, image *os.Root) (*clusterNode, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// The agent makes it before anything else, which is no step of a cluster.
	if err := root.MkdirAll(stateDir, 0o755); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	state, err := root.OpenRoot(stateDir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}

	n := &clusterNode{
		root:  root,
		state: state,
		image: image,
		now:   early,
		hook:  func(string) durable.Hook { return nil },
	}
	n.systemd = newClusterSystemd(n)
	return n, nil
}

func (n *clusterNode) close() {
	n.root.Close()
	n.state.Close()
}

func (n *clusterNode) dir() *durable.Dir { return durable.New(n.root, n.hook("")) }

func (n *clusterNode) stateDir() *durable.Dir { return durable.New(n.state, n.hook(stateDir)) }

// record has all that is done to the node recorded from now on. base is what its disk
// has, and may lose.
func (n *clusterNode) record(base *power.Disk) *power.Recorder {
	r := power.NewRecorder(n.root, base)
	n.systemd.mark = r.Mark
	n.hook = r.Hook
	return r
}

// powerOn starts the machine, up to the moment at which the agent has read its source:
// /init puts the files of the generation in place, the agent issues what is due, and then
// systemd starts the programs of the generation.
func (n *clusterNode) powerOn() (*agent, error) {
	n.boots++
	if err := errors.Join(n.placeGeneration(), n.systemd.Boot()); err != nil {
		return nil, fmt.Errorf("start the machine: %w", err)
	}

	a, err := n.startAgent()
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	if err := n.systemd.startPrograms(); err != nil {
		return nil, fmt.Errorf("start the programs: %w", err)
	}
	if _, err := a.executor.Resume(context.Background()); err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return a, nil
}

// placeGeneration is what /init does for the current generation (agent/boot, buildEtc).
func (n *clusterNode) placeGeneration() error {
	dir := n.dir()
	if err := dir.MkdirAll("run/loam"); err != nil {
		return err
	}
	_, err := dir.Symlink(generation.CurrentTarget(n.root.FS(), osVersion), generation.Link[1:])
	if err != nil {
		return err
	}

	store := generation.Read(n.state.FS())
	m, ok, err := store.Current(osVersion)
	if !ok || errors.Is(err, generation.ErrIncomplete) {
		return nil // /init goes on without a configuration.
	}
	if err != nil {
		return err
	}
	for _, p := range generation.Place(m) {
		if strings.HasPrefix(p.Path, "/etc/") {
			_, _ = generation.Put(dir, p, store) // /init goes on as well.
		}
	}
	return nil
}

// startAgent is what the agent does at its start about the cluster (agent/own.go).
func (n *clusterNode) startAgent() (*agent, error) {
	a := &agent{node: n, store: plane.NewStore(n.dir())}
	a.executor = apply.Open(apply.Config{
		State:     n.stateDir(),
		Node:      n.dir(),
		Image:     n.image.FS(),
		Units:     n.systemd,
		OSVersion: osVersion,
		BootID:    fmt.Sprintf("boot-%d", n.boots),
		JobWait:   time.Minute,
		Limit:     time.Minute,
		Now:       func() time.Time { return n.now },
		Uptime:    func() time.Duration { return time.Hour },
	})

	wanted := first()
	made, err := a.store.CheckInit(wanted)
	if err != nil {
		return nil, err
	}
	var makes *plane.Record
	if !made {
		makes = &wanted
	}
	r, made, err := local.FindRecord(a.store, makes)
	if err != nil {
		return nil, err
	}

	a.plane = local.New(*r, local.Config{
		Store: a.store,
		Root:  n.root.Name(),
		Image: n.image,
		Name:  "node-1",
		First: !made,
		Addresses: func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.10")}, nil
		},
		Current: a.current,
		Prune: func(oldest string) error {
			return bundle.NewStore(n.dir()).Prune(oldest, nil)
		},
		Uptime: func() time.Duration { return time.Hour },
		Built:  built,
		Now:    func() time.Time { return n.now },
		Log:    zap.NewNop(),
	})
	if made {
		return a, a.plane.Renew(*r)
	}
	return a, nil
}

// current is agent.node.currentChange.
func (a *agent) current() (digest string, trying bool, err error) {
	m, _, err := a.executor.Current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return "", false, err
	}
	_, trying, err = a.executor.Pending()
	return m.Digest, trying, err
}

// maxRounds is more than a change takes: to apply it, and to keep what is applied.
const maxRounds = 5

// settle does what the agent's loop does until nothing is left to do.
func (a *agent) settle() error {
	ctx := context.Background()
	for range maxRounds {
		doc, err := a.plane.Read(ctx)
		if err != nil {
			return err
		}
		desired, err := a.plane.Decode(ctx, doc)
		if err != nil {
			return err
		}
		digest, trying, err := a.current()
		if err != nil {
			return err
		}
		if desired.Digest() == digest && !trying {
			return nil
		}

		if desired.Digest() != digest {
			_, err := a.executor.Apply(ctx, apply.Request{Desired: desired, Source: "test"})
			if err != nil {
				return fmt.Errorf("apply: %w", err)
			}
		}
		verdict, err := a.executor.Judge(ctx)
		if err != nil || verdict.Word != health.Good {
			return fmt.Errorf("judge: %+v %w", verdict, err)
		}
		if _, err := a.executor.Conclude(ctx, verdict); err != nil {
			return fmt.Errorf("conclude: %w", err)
		}
	}
	return errors.New("the node does not come to rest")
}

// set is `loam cluster set` (cmd/loam).
func (a *agent) set(after plane.Record) error {
	before, _, err := a.store.Record()
	if err != nil {
		return err
	}
	r, err := local.DecodeChange(context.Background(), a.store, a.node.root.Name(), "new.json",
		after.Text(), before)
	if err != nil {
		return err
	}
	return a.store.ReplaceRecord(before, r)
}
