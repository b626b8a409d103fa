package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/loam-os/loam/test/suite/events"
	"github.com/loam-os/loam/test/suite/report"
	"github.com/loam-os/loam/test/suite/stage"
)

// runner runs stages.
type runner struct {
	// top is the top of the tree.
	top string
	// modfile is the go.mod with gotestsum.
	modfile string
	short   bool
	// grace is how long a stage may clean up after an interrupt.
	grace   time.Duration
	out     io.Writer
	module  string
	sources *sources
}

// run runs the groups one after the other. If ctx ends, it ends what runs and
// leaves out the rest.
func (r *runner) run(ctx context.Context, groups []stage.Group) (report.Summary, error) {
	err := os.MkdirAll(filepath.Join(r.top, dir), 0o755)
	if err != nil {
		return report.Summary{}, err
	}

	var done []report.Stage
	var failed []string
	for _, group := range groups {
		for _, result := range r.runGroup(ctx, group, failed) {
			done = append(done, result)
			if result.Error != "" {
				failed = append(failed, result.Name)
			}
		}
		if ctx.Err() != nil {
			break
		}
	}

	naming := report.Naming{Module: r.module, IsLog: r.sources.isLog}
	err = r.writeSlowest(done, naming)
	return report.Of(done, naming), err
}

func (r *runner) writeSlowest(done []report.Stage, naming report.Naming) error {
	var text strings.Builder
	report.Slowest(&text, done, naming)
	path := filepath.Join(dir, "slowest.txt")
	fmt.Fprintf(r.out, "\nslowest tests and packages: %s\n\n", path)
	return os.WriteFile(filepath.Join(r.top, path), []byte(text.String()), 0o644)
}

// runGroup runs the stages of a group side by side, but for those that wait for others.
func (r *runner) runGroup(ctx context.Context, group stage.Group, failed []string) []report.Stage {
	out := &locked{w: r.out}
	results := make([]report.Stage, len(group))
	ended := map[string]chan struct{}{}
	for _, s := range group {
		ended[s.Name] = make(chan struct{})
	}

	var all sync.WaitGroup
	for i, s := range group {
		all.Go(func() {
			defer close(ended[s.Name])

			for _, name := range s.After {
				// One that is not selected is not waited for.
				if before, ok := ended[name]; ok {
					<-before
				}
			}

			missing := s.Missing(failed)
			if missing != "" {
				results[i] = report.Stage{Name: s.Name, LeftOut: missing}
				return
			}
			results[i] = r.runStage(ctx, s, out)
		})
	}
	all.Wait()

	return results
}

// runStage runs a stage; its output goes to its file, and to out with its name
// before each line.
func (r *runner) runStage(ctx context.Context, s stage.Stage, out io.Writer) report.Stage {
	result := report.Stage{Name: s.Name, File: filepath.Join(dir, s.Name+".log")}
	progress := &prefixed{w: out, prefix: s.Name + ": "}
	defer progress.flush()

	fmt.Fprintln(progress, "start")
	start := time.Now()
	err := r.try(ctx, s, &result, progress)
	result.Took = time.Since(start)

	took := result.Took.Round(time.Second)
	switch {
	case ctx.Err() != nil:
		result.Error = "interrupted; all that it started is ended"
		fmt.Fprintln(progress, result.Error)
	case err != nil:
		result.Error = err.Error()
		fmt.Fprintf(progress, "failed after %v: %v\n", took, err)
	default:
		fmt.Fprintf(progress, "done in %v\n", took)
	}

	return result
}

// try runs a stage, and reads the events of tests into result.
func (r *runner) try(
	ctx context.Context,
	s stage.Stage,
	result *report.Stage,
	progress io.Writer,
) error {
	log, err := os.Create(filepath.Join(r.top, result.File))
	if err != nil {
		return err
	}
	defer log.Close()

	p := process{
		dir:     filepath.Join(r.top, s.Dir),
		command: s.Command,
		// A missing judge is a failure.
		env:   append([]string{"CI=true"}, s.Env...),
		grace: r.grace,
		out:   io.MultiWriter(log, progress),
	}
	if !s.IsTests() {
		err := p.run(ctx)
		if err != nil {
			return withFirstLine(err, log.Name())
		}
		return nil
	}

	packages, err := r.sources.list(ctx, p.dir, s.Packages)
	if err != nil {
		return err
	}

	eventsFile := filepath.Join(r.top, dir, s.Name+".jsonl")
	err = os.RemoveAll(eventsFile)
	if err != nil {
		return err
	}
	p.command = s.TestCommand(stage.Tests{
		Judges:   filepath.Join(r.top, "build/judges/env"),
		Modfile:  r.modfile,
		Events:   eventsFile,
		Packages: s.Keep(packages),
		Short:    r.short,
	})
	runErr := p.run(ctx)

	result.Log, err = readEvents(eventsFile)
	switch {
	case runErr == nil:
		return err
	case err == nil && len(result.Log.Packages) > 0:
		// The events say why.
		return runErr
	}
	return withFirstLine(runErr, log.Name())
}

func readEvents(path string) (*events.Log, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	return events.Read(f)
}

// withFirstLine returns an error with the line of a log that says why.
func withFirstLine(err error, log string) error {
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		return errors.Join(err, readErr)
	}

	line := report.FirstLine(string(text))
	if line == "" {
		return err
	}
	return fmt.Errorf("%s (%w)", line, err)
}
