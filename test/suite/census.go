package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/test/suite/count"
	"github.com/loam-os/loam/test/suite/events"
)

// census runs each test many times, one package after the other, and writes a
// table of the failures after each package, so that it can be stopped.
func census(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("census", flag.ExitOnError)
	n := flags.Int("n", 0, "run each test so often; otherwise 50, 20 or 5 times, by stage")
	withLoad := flags.Bool("load", false, "keep both processors and the disk busy")
	short := flags.Bool("short", false, "run the short tests, as make test does")
	only := flags.String("only", "", "run these stages only: packages,systemd,machines")
	run := flags.String("run", "", "run the tests that match")
	err := flags.Parse(args)
	if err != nil {
		return err
	}

	r, err := newRunner(ctx)
	if err != nil {
		return err
	}
	plan, err := r.plan(ctx, flags.Args(), *only, *n)
	if err != nil {
		return err
	}
	for i := range plan {
		plan[i].Short = *short
	}

	results := filepath.Join(r.top, dir, "census")
	err = os.MkdirAll(results, 0o755)
	if err != nil {
		return err
	}
	if *withLoad {
		stop, err := startLoad(results)
		if err != nil {
			return err
		}
		defer stop()
	}

	return r.count(ctx, plan, *run)
}

// plan lists the packages of the patterns, all if there are none.
func (r *runner) plan(
	ctx context.Context,
	patterns []string,
	only string,
	n int,
) ([]count.Job, error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	var stages []string
	if only != "" {
		stages = strings.Split(only, ",")
	}

	var packages []count.Package
	for _, pattern := range patterns {
		paths, err := r.sources.list(ctx, r.top, pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			packages = append(packages, count.Package{
				Path:    path,
				Imports: r.sources.imports[path],
			})
		}
	}

	return count.Plan(packages, stages, n)
}

// count does the jobs. The events of a package that failed stay in
// build/test/census.
func (r *runner) count(ctx context.Context, jobs []count.Job, run string) error {
	table := count.Table{Module: r.module, IsLog: r.sources.isLog}
	path := filepath.Join(dir, "census.txt")
	for i, job := range jobs {
		fmt.Fprintf(r.out, "[%d of %d] %s, %d times\n", i+1, len(jobs), job.Package, job.N)
		log, failure := r.countPackage(ctx, job, run)
		// A package that was stopped half way says nothing.
		if ctx.Err() != nil {
			break
		}
		if failure != nil && len(log.Packages) == 0 {
			return failure
		}

		for _, row := range table.Add(log) {
			fmt.Fprintln(r.out, "  "+row.String())
		}
		err := os.WriteFile(filepath.Join(r.top, path), []byte(table.String()), 0o644)
		if err != nil {
			return err
		}
	}

	fmt.Fprintf(r.out, "\n%s\nthis table: %s\n", table.String(), path)
	switch {
	case ctx.Err() != nil:
		return errors.New("census: interrupted; all that it started is ended")
	case table.Failures() > 0:
		return errRed
	}
	return nil
}

// countPackage runs the tests of a package.
func (r *runner) countPackage(
	ctx context.Context,
	job count.Job,
	run string,
) (*events.Log, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(job.Package, r.module+"/"), "/", "-")
	path := filepath.Join(r.top, dir, "census", name+".jsonl")
	f, err := os.Create(path)
	if err != nil {
		return &events.Log{}, err
	}

	var stderr strings.Builder
	p := process{
		dir:     r.top,
		command: job.Command(run),
		grace:   r.grace,
		out:     f,
		errOut:  &stderr,
	}
	runErr := p.run(ctx)
	if runErr != nil {
		runErr = fmt.Errorf("%s: %w: %s", job.Package, runErr, strings.TrimSpace(stderr.String()))
	}
	err = f.Close()
	if err != nil {
		return &events.Log{}, err
	}

	log, err := readEvents(path)
	if err != nil {
		return &events.Log{}, err
	}
	if runErr == nil {
		return log, os.Remove(path)
	}
	return log, runErr
}
