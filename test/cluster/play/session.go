package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/vm"
)

// session is what runs. Its fields are set by the stages of start.
type session struct {
	build    string
	steps    *step.Log
	programs map[string]string
	fixture  testcluster.Fixture
	node     *vm.VM
	ends     []func() // in the order of what they end
}

// stage is one line of the progress on the terminal.
type stage struct {
	name  string
	limit time.Duration
	work  func(context.Context, io.Writer) error
}

// start goes through all stages. Limits are for a busy machine that emulates;
// on two idle cores, all of them together take two minutes.
func (s *session) start(ctx context.Context) error {
	for _, st := range []stage{
		{"programs of the control plane (go build)", time.Hour, s.buildPrograms},
		{"control plane up", 4 * time.Minute, s.startControlPlane},
		{"configuration published (loamctl)", time.Minute, publish},
		{"machine booted", 4 * time.Minute, s.boot},
		{"certificate issued", 4 * time.Minute, s.certify},
		{"configuration applied", 8 * time.Minute, s.applied},
		{"Node Ready", 8 * time.Minute, s.ready},
	} {
		if err := s.do(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// do runs a stage. When it fails on the node, that says what it knows.
func (s *session) do(ctx context.Context, st stage) error {
	return s.steps.Do(st.name, "", func(detail io.Writer) error {
		wait, cancel := context.WithTimeout(ctx, st.limit)
		defer cancel()

		err := st.work(wait, detail)
		if err == nil || ctx.Err() != nil {
			return err
		}

		if s.node != nil {
			fmt.Fprintln(detail, s.explain(ctx))
		}
		if errors.Is(wait.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("not within %s: %w", st.limit, err)
		}

		return err
	})
}

// later has end called before all that was started earlier ends.
func (s *session) later(end func()) { s.ends = append(s.ends, end) }

// end ends all that was started.
func (s *session) end() {
	for len(s.ends) > 0 {
		last := len(s.ends) - 1
		s.ends[last]()
		s.ends = s.ends[:last]
	}
}

// attend waits for the end.
func (s *session) attend(ctx context.Context) error {
	select {
	case <-ctx.Done():
		fmt.Println("\nending the node and its cluster")
		return nil
	case <-s.node.Done():
	}
	if err := s.node.Wait(context.Background()); err != nil && ctx.Err() == nil {
		return err
	}
	fmt.Println("\nthe node is off; ending its cluster")
	return nil
}

// explain is the end of the log of the node's services, or of its console if
// the node does not answer.
func (s *session) explain(ctx context.Context) string {
	select {
	case <-s.node.Done():
		return fmt.Sprintf("%sthe machine is off: %v", s.node.Console().Tail(20), s.node.Wait(ctx))
	default:
	}

	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	const command = "loam status; journalctl -b --no-pager -n 15 -u loam-agent -u " +
		"containerd -u kubelet"
	out, err := s.node.Shell().Run(ctx, command)
	if err != nil {
		return s.node.Console().Tail(25)
	}

	return out
}

func (s *session) buildPrograms(ctx context.Context, detail io.Writer) (err error) {
	s.programs, err = cluster.Build(ctx, detail)
	return err
}

// startControlPlane starts etcd and all on top of it, and the registry with its
// images, and writes the files for the person.
func (s *session) startControlPlane(ctx context.Context, _ io.Writer) error {
	for _, d := range []string{controlDir, registryDir} {
		if err := errors.Join(os.RemoveAll(d), os.MkdirAll(d, 0o700)); err != nil {
			return err
		}
	}
	if err := s.startCluster(ctx); err != nil {
		return err
	}
	if err := s.fixture.Prepare(ctx, s.programs["kubelet"]); err != nil {
		return err
	}
	return s.writeFiles()
}
