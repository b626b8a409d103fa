// Command bench measures the figures of docs/figures.md: a JSON object a line
// in build/bench/results.jsonl, a table, and plots. `make bench` runs it, on a
// machine that does nothing else.
//
//	measureBoots, measureEngine, measureCluster, ...
//	       | values
//	       v
//	    result: median, goal --> report --> results.jsonl --> plots as SVG
//	                               |
//	                               +------> table on the terminal
//
// Each file has the measurements of one subject. A measurement takes its values
// by itself, in turn with what it is compared with, and reports one [Result]
// for each figure. -only runs one subject; -plot draws the plots again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	boots := flag.Int("boots", 5, "boots of each kind")
	cold := flag.Bool("cold", true, "build with an empty cache, too")
	only := flag.String("only", "",
		"\"engine\", \"gardener\", \"cluster\", \"control-plane\", \"reference\", "+
			"\"upgrade\", \"flash\", \"rollout\", \"places\", \"live\" or \"encrypt\": only that")

	draw := flag.Bool("plot", false, "measure nothing, and draw the plots of the results there are")
	flag.Parse()

	if os.Getenv(childVariable) != "" {
		if err := firstApply(ctx, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}

	var err error
	if !*draw {
		err = run(ctx, *boots, *cold, *only)
	}
	if err == nil {
		err = drawPlots(plotDirectory, filepath.Join(dir, "results.jsonl"))
	}
	if err == nil {
		err = drawRollouts(plotDirectory, filepath.Join(dir, curvesFile))
	}

	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// dir is where all that is measured goes.
const dir = "build/bench"

func run(ctx context.Context, boots int, cold bool, only string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	file, err := os.Create(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	r := &report{file: file}
	defer r.table(os.Stdout)

	switch only {
	case "gardener":
		return measureGardener(ctx, r)
	case "cluster":
		return measureCluster(ctx, r)
	case "control-plane":
		return measureAll(ctx, r, controlPlaneBenchmarks...)
	case "reference":
		return measureAll(ctx, r, referenceChange, referenceStart)
	case "upgrade":
		return measureUpgrade(ctx, r)
	case "flash":
		return flashDisk.measure(ctx, r)
	case "rollout":
		return measureRollouts(ctx, r)
	case "places":
		return measurePlaces(ctx, r, cold)
	case "live":
		if _, err := runBuild(ctx, nil); err != nil {
			return err
		}
		b, err := open(ctx)
		if err != nil {
			return err
		}
		return measureLive(ctx, r, b)
	case "encrypt":
		if _, err := runBuild(ctx, nil); err != nil {
			return err
		}
		b, err := openNode(ctx)
		if err != nil {
			return err
		}
		return measureEncryption(ctx, r, b, boots)
	}

	if err := measureEngine(ctx, r); err != nil || only == "engine" {
		return err
	}
	if err := measureCluster(ctx, r); err != nil {
		return err
	}
	if err := measureAll(ctx, r, controlPlaneBenchmarks...); err != nil {
		return err
	}
	if err := measureBuild(ctx, r, cold); err != nil {
		return err
	}
	if err := measurePlaces(ctx, r, cold); err != nil {
		return err
	}

	if err := measureUpgrade(ctx, r); err != nil {
		return err
	}
	if err := flashDisk.measure(ctx, r); err != nil {
		return err
	}

	b, err := open(ctx)
	if err != nil {
		return err
	}
	if err := measureLive(ctx, r, b); err != nil {
		return err
	}
	if err := measureEncryption(ctx, r, b, boots); err != nil {
		return err
	}
	if err := measureSizes(ctx, r, b); err != nil {
		return err
	}

	if err := measureBoots(ctx, r, b, boots); err != nil {
		return err
	}
	return measureRollouts(ctx, r)
}

// conditions every figure was taken under.
func conditions(more string) string {
	return fmt.Sprintf("%d CPUs, %s", runtime.NumCPU(), more)
}
