package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/test/vm"
)

// session is what runs. Its fields are set by the stages of start.
type session struct {
	build    string
	steps    *step.Log
	programs map[string]string
	node     *vm.VM
	ends     []func() // in the order of what they end

	// plug connects the machine to the network, and gives it its machine.yaml.
	plug func(context.Context, *vm.Config) error
}

// stage is one line of the progress on the terminal.
type stage struct {
	name  string
	limit time.Duration
	work  func(context.Context, io.Writer) error
}

// start goes through all stages. Limits are for a busy machine that emulates;
// on two idle cores, all of them together take minutes.
func (s *session) start(ctx context.Context, stages []stage) error {
	for _, st := range stages {
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
		fmt.Println("\nending the machine and its cluster")
		return nil
	case <-s.node.Done():
	}
	if err := s.node.Wait(context.Background()); err != nil && ctx.Err() == nil {
		return err
	}
	fmt.Println("\nthe machine is off; ending its cluster")
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
