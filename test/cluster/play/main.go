// Command play runs a real cluster on this machine with the image as one of its
// Nodes, for trying things out: `make cluster`. `play shell` opens a shell on
// that node, `play shell COMMAND` runs one command there, which
// reads the standard input.
//
//	go build --> programs --> control plane, registry   (testcluster.Fixture)
//	                             |
//	loamctl --> osc.yaml ---> Secret          vm.VM boots the image, and joins
//	                             |               |
//	                             +--> applied <--+--> Node Ready --> shell, hints
//
// session has what runs, and session.start is the list of stages: each has a
// line on the terminal and a limit, and puts what it started on the list that
// session.end ends in reverse.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/image/step"
)

// Files in dir, for the person.
const (
	dir         = "build/cluster"
	shellFile   = dir + "/shell" // relative, since a socket's name is short (unix(7))
	kubeconfig  = dir + "/kubeconfig"
	oscFile     = dir + "/osc.yaml"
	consoleFile = dir + "/console.log"
	controlDir  = dir + "/control-plane"
	registryDir = dir + "/registry"
)

func main() {
	build := flag.String("build", "build/amd64-cloud", "directory with the image")
	flag.Parse()

	// The end of the terminal is an end, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	var err error
	if args := flag.Args(); len(args) > 0 && args[0] == "shell" {
		err = shell(ctx, args[1:], os.Stdin, os.Stdout)
	} else {
		err = play(ctx, *build)
	}

	if err != nil {
		fmt.Fprintf(os.Stderr, "play: %v\n", err)
		os.Exit(1)
	}
}

// play plays until ctx ends, or the machine is switched off.
func play(ctx context.Context, build string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()

	steps, err := step.New(os.Stdout, dir+"/play.log")
	if err != nil {
		return err
	}
	defer steps.Close()

	s := &session{build: build, steps: steps}
	defer s.end()

	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; all that was started is ended")
		}
		return err
	}

	hints(os.Stdout, s.fixture.URL())
	return s.attend(ctx)
}

// lock keeps a second cluster out of the directory.
func lock() (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}

	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("a cluster runs already\nhint: end it with Ctrl-C where it was started")
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), f.Close())
	}

	return f.Close, nil
}
