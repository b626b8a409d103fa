package main

import (
	"context"
	"io"
	"os"
	"regexp"

	"github.com/loam-os/loam/test/vm"
)

var verifiedLine = regexp.MustCompile(`root [0-9a-f]+ verified`)

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

	err = s.plug(ctx, &config)
	if err != nil {
		return err
	}

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

// openShell opens the shell on the node to the person.
func (s *session) openShell() error {
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
