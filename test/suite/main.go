// Command suite runs all tests of the tree in stages, and says in its last
// lines what is broken. The Makefile calls it; it runs at the top of the tree.
//
//	stage.Suite --> runner --> gotestsum --> events.Read --> report.Of
//
// A stage that fails does not stop those after it. A test that fails runs once
// more, alone: if it passes then, it is named as unsteady, and the run is not
// red. The output of each stage is in build/test/STAGE.log, its events are in
// build/test/STAGE.jsonl.
//
// `suite census` runs each test many times and counts how often it fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/loam-os/loam/test/suite/stage"
)

// dir is where everything is written, relative to the top of the tree.
const dir = "build/test"

// errRed says that something is broken, and that the output says what.
var errRed = errors.New("red")

func main() {
	// The end of the terminal is an end, too.
	ctx, stop := signal.NotifyContext(context.Background(),
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	var err error
	args := os.Args[1:]
	switch {
	case len(args) > 0 && args[0] == "census":
		err = census(ctx, args[1:])
	case len(args) > 0 && args[0] == "load":
		// The census decides when its load ends.
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		err = load(os.Stdin, args[1:])
	default:
		err = suite(ctx, args)
	}

	if err != nil {
		if !errors.Is(err, errRed) {
			fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		}
		os.Exit(1)
	}
}

// suite runs the stages that the arguments select.
func suite(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("suite", flag.ExitOnError)
	short := flags.Bool("short", false, "run the short suite")
	only := flags.String("only", "", "run these stages only, such as style,packages")
	err := flags.Parse(args)
	if err != nil {
		return err
	}

	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	groups, err := stage.Select(stage.Suite(), *short, names)
	if err != nil {
		return err
	}

	r, err := newRunner(ctx)
	if err != nil {
		return err
	}
	r.short = *short
	pauses := watchPauses(ctx)
	summary, err := r.run(ctx, groups)
	summary.Pauses = pauses()
	if err != nil {
		return err
	}

	summary.Write(os.Stdout)
	if summary.Red() {
		return errRed
	}
	return nil
}

// newRunner returns a runner for the tree in the current directory.
func newRunner(ctx context.Context) (*runner, error) {
	top, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}

	return &runner{
		top:     top,
		modfile: filepath.Join(top, "test/gotestsum/go.mod"),
		grace:   grace,
		out:     os.Stdout,
		module:  strings.TrimSpace(string(module)),
		sources: newSources(),
	}, nil
}
