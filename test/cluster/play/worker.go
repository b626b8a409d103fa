package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/vm"
)

var appliedLine = regexp.MustCompile(`loam: applied generation (\S+) after`)

// worker is a machine that joins a control plane on this host.
type worker struct {
	*session
	fixture testcluster.Fixture
}

func newWorker(s *session) game {
	w := &worker{session: s}
	s.plug = w.plug
	return w
}

func (w *worker) stages() []stage {
	return []stage{
		{"programs of the control plane (go build)", time.Hour, w.buildPrograms},
		{"control plane up", 4 * time.Minute, w.startControlPlane},
		{"configuration published (loamctl)", time.Minute, publishConfiguration},
		{"machine booted", 4 * time.Minute, w.boot},
		{"certificate issued", 4 * time.Minute, w.certify},
		{"configuration applied", 8 * time.Minute, w.applied},
		{"Node Ready", 8 * time.Minute, w.ready},
	}
}

// plug makes the machine a part of the test cluster.
func (w *worker) plug(ctx context.Context, config *vm.Config) error {
	token, err := w.fixture.NewToken(ctx)
	if err != nil {
		return err
	}

	config.Credentials = map[string]string{"loam.machine": w.fixture.Machine(token)}
	return w.fixture.Connect(config)
}

func (w *worker) buildPrograms(ctx context.Context, detail io.Writer) (err error) {
	w.programs, err = cluster.Build(ctx, detail, "etcd", "registry", "kubelet")
	return err
}

// startControlPlane starts etcd and all on top of it, and the registry with its
// images, and writes the files for the person.
func (w *worker) startControlPlane(ctx context.Context, _ io.Writer) error {
	for _, d := range []string{controlDir, registryDir} {
		if err := errors.Join(os.RemoveAll(d), os.MkdirAll(d, 0o700)); err != nil {
			return err
		}
	}
	if err := w.startCluster(ctx); err != nil {
		return err
	}
	if err := w.fixture.Prepare(ctx, w.programs["kubelet"]); err != nil {
		return err
	}
	return w.writeFiles()
}

// greeting is a file to be changed without anything being restarted.
const greeting = "/etc/hello/greeting"

func (w *worker) startCluster(ctx context.Context) error {
	control, err1 := filepath.Abs(controlDir)
	images, err2 := filepath.Abs(registryDir)
	m, err3 := readManifest(w.build)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}

	w.fixture.Arch = m.Arch
	c, err := cluster.Run(ctx, control, w.programs,
		cluster.Options{Controllers: true, Scheduler: true})
	if err != nil {
		return err
	}

	w.later(c.Close)
	r, err := cluster.RunRegistry(ctx, images, w.programs, cluster.RegistryOptions{})
	if err != nil {
		return err
	}

	w.later(r.Close)
	w.fixture.Cluster = c
	w.fixture.Registry = r

	return nil
}

func (w *worker) writeFiles() error {
	admin, err := w.fixture.AdminKubeconfig()
	if err != nil {
		return err
	}

	_ = os.Remove(kubeconfig) // its mode may be another
	file := "  - path: " + greeting + "\n    permissions: 0644\n" +
		"    content: {inline: {data: \"Hello from the cluster\\n\"}}\n"
	return errors.Join(
		os.WriteFile(kubeconfig, []byte(admin), 0o600),
		os.WriteFile(oscFile, []byte(w.fixture.OSC(20, "", file)), 0o644),
	)
}

// publishCommand is the command that an operator would use, too.
var publishCommand = []string{
	"build/loamctl", "osc", "publish", oscFile, "--name", testcluster.Secret, "--pool", "play",
	"--allow-tags",
	"--kubeconfig", kubeconfig,
}

func publishConfiguration(ctx context.Context, detail io.Writer) error {
	cmd := exec.CommandContext(ctx, publishCommand[0], publishCommand[1:]...)
	cmd.Stdout = detail
	cmd.Stderr = detail
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}

	return nil
}

// certify approves the request of the node's agent, as an operator of the
// cluster has to.
func (w *worker) certify(ctx context.Context, _ io.Writer) error {
	return w.fixture.ApproveAgent(ctx)
}

func (w *worker) applied(ctx context.Context, _ io.Writer) error {
	_, _, _, err := w.node.Console().Expect(ctx, 0, appliedLine)
	return err
}

// ready waits for the Node, and opens the shell to the person.
func (w *worker) ready(ctx context.Context, _ io.Writer) error {
	isReady := testcluster.Condition("Ready", "True")
	if err := w.fixture.Await(ctx, testcluster.NodeAPI, isReady); err != nil {
		return err
	}

	return w.openShell()
}
