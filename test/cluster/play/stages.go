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

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/vm"
)

var (
	verifiedLine = regexp.MustCompile(`root [0-9a-f]+ verified`)
	appliedLine  = regexp.MustCompile(`loam: applied generation (\S+) after`)
)

// greeting is a file to be changed without anything being restarted.
const greeting = "/etc/hello/greeting"

func (s *session) startCluster(ctx context.Context) error {
	control, err1 := filepath.Abs(controlDir)
	images, err2 := filepath.Abs(registryDir)
	m, err3 := readManifest(s.build)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}

	s.fixture.Arch = m.Arch
	c, err := cluster.Run(ctx, control, s.programs,
		cluster.Options{Controllers: true, Scheduler: true})
	if err != nil {
		return err
	}

	s.later(c.Close)
	r, err := cluster.RunRegistry(ctx, images, s.programs, cluster.RegistryOptions{})
	if err != nil {
		return err
	}

	s.later(r.Close)
	s.fixture.Cluster = c
	s.fixture.Registry = r

	return nil
}

func (s *session) writeFiles() error {
	admin, err := s.fixture.AdminKubeconfig()
	if err != nil {
		return err
	}

	_ = os.Remove(kubeconfig) // its mode may be another
	file := "  - path: " + greeting + "\n    permissions: 0644\n" +
		"    content: {inline: {data: \"Hello from the cluster\\n\"}}\n"
	return errors.Join(
		os.WriteFile(kubeconfig, []byte(admin), 0o600),
		os.WriteFile(oscFile, []byte(s.fixture.OSC(20, "", file)), 0o644),
	)
}

// publishCommand is the command that an operator would use, too.
var publishCommand = []string{
	"build/loamctl", "osc", "publish", oscFile, "--name", testcluster.Secret, "--pool", "play",
	"--kubeconfig", kubeconfig,
}

func publish(ctx context.Context, detail io.Writer) error {
	cmd := exec.CommandContext(ctx, publishCommand[0], publishCommand[1:]...)
	cmd.Stdout = detail
	cmd.Stderr = detail
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}

	return nil
}

// boot switches a machine with a fresh disk on, and waits for the shell that
// systemd starts on it.
func (s *session) boot(ctx context.Context, _ io.Writer) error {
	if err := s.powerOn(ctx); err != nil {
		return err
	}
	// The boot menu would take what is typed before /init runs.
	if _, _, _, err := s.node.Console().Expect(ctx, 0, verifiedLine); err != nil {
		return err
	}
	return s.node.Shell().Open(ctx)
}

// powerOn starts QEMU, which outlives ctx: end ends it.
func (s *session) powerOn(ctx context.Context) error {
	config, run, err := s.machine(ctx)
	if err != nil {
		return err
	}

	token, err := s.fixture.NewToken(ctx)
	if err != nil {
		return err
	}

	config.Credentials = map[string]string{"loam.machine": s.fixture.Machine(token)}
	log, err := os.Create(consoleFile)
	if err != nil {
		return err
	}

	s.later(func() { log.Close() })
	s.node, err = vm.Start(context.WithoutCancel(ctx), run, config)
	if err != nil {
		return err
	}

	s.node.Console().Mirror(log)
	s.later(func() {
		_ = s.node.Kill()
		s.node.Console().Mirror(nil)
	})

	return nil
}

// certify approves the request of the node's agent, as an operator of the
// cluster has to.
func (s *session) certify(ctx context.Context, _ io.Writer) error {
	return s.fixture.ApproveAgent(ctx)
}

func (s *session) applied(ctx context.Context, _ io.Writer) error {
	_, _, _, err := s.node.Console().Expect(ctx, 0, appliedLine)
	return err
}

// ready waits for the Node, and opens the shell to the person.
func (s *session) ready(ctx context.Context, _ io.Writer) error {
	isReady := testcluster.Condition("Ready", "True")
	if err := s.fixture.Await(ctx, testcluster.NodeAPI, isReady); err != nil {
		return err
	}

	end, err := serveShell(s.node.Shell())
	if err != nil {
		return err
	}

	s.later(func() {
		_ = s.node.Kill()
		end()
	})

	return nil
}
