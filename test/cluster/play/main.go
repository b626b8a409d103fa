// Command play runs a real cluster with the image, for trying things out. `make
// cluster` is a machine that is a cluster by itself:
//
//	go build --> programs --> bundle --> repository on loopback
//	                                          |
//	      vm.VM boots the image, fetches it, and makes its cluster --> kubeconfig
//
// `make worker`, which is `play worker`, is a machine that joins a control plane on
// this host:
//
//	go build --> programs --> control plane, registry   (testcluster.Fixture)
//	                             |
//	loamctl --> osc.yaml ---> Secret          vm.VM boots the image, and joins
//	                             |               |
//	                             +--> applied <--+--> Node Ready
//
// `play shell` opens a shell on the node of either, and `play shell COMMAND` runs
// one command there, which reads the standard input.
//
// own and worker are lists of stages: each has a line on the terminal and a limit,
// and puts what it started on the list that session.end ends in reverse.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	switch flag.Arg(0) {
	case "shell":
		err = shell(ctx, flag.Args()[1:], os.Stdin, os.Stdout)
	case "worker":
		err = play(ctx, *build, newWorker)
	case "":
		err = play(ctx, *build, newOwn)
	default:
		err = fmt.Errorf("%q: want shell, worker or nothing", flag.Arg(0))
	}

	if err != nil {
		fmt.Fprintf(os.Stderr, "play: %v\n", err)
		os.Exit(1)
	}
}

// game is what is played with a session.
type game interface {
	// stages starts everything.
	stages() []stage
	// hints says what there is to try.
	hints(out io.Writer)
}

// play plays until ctx ends, or the machine is switched off.
func play(ctx context.Context, build string, of func(*session) game) error {
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

	g := of(s)
	if err := s.start(ctx, g.stages()); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; all that was started is ended")
		}
		return err
	}

	g.hints(os.Stdout)
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
