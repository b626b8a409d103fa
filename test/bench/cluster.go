package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// clusterGoals are the figures of test/recorded's benchmarks: a goal for each
// unit that one reports.
var clusterGoals = map[string]map[string]float64{
	"small":        {"p50-ms": 25},
	"one-of-200":   {"p50-ms": 50},
	"all-200":      {"p50-ms": 200, "written-MB": 2},
	"node-appears": {"p50-ms": 100},
	"start-small":  {"p50-ms": 150},
	"start-200":    {"p50-ms": 400},
}

// clusterRounds is how many times each is measured.
const clusterRounds = 30

// measureCluster measures a recorded node at a real API server.
func measureCluster(ctx context.Context, r *report) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "Reaction", "-benchtime", fmt.Sprintf("%dx", clusterRounds), "./test/recorded")
	cmd.Env = append(os.Environ(), "CI=true") // Without the programs it is to fail, not to be left out.
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("measure at a cluster: %w\n%s", err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	name := ""
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		// What a program writes meanwhile may part a benchmark's name from its figures.
		if len(fields) > 0 && strings.HasPrefix(fields[0], "BenchmarkReaction/") {
			name = strings.TrimPrefix(fields[0], "BenchmarkReaction/")
			name = name[:strings.LastIndexByte(name, '-')]
		}
		if err := addFigures(r, name, fields); err != nil {
			return err
		}
	}
	return nil
}

// addFigures adds those figures of a benchmark's line that have a goal.
func addFigures(r *report, name string, fields []string) error {
	values := map[string]float64{}
	for i := 1; i < len(fields); i++ {
		if v, err := strconv.ParseFloat(fields[i-1], 64); err == nil {
			values[fields[i]] = v
		}
	}
	for unit, goal := range clusterGoals[name] {
		value, ok := values[unit]
		if !ok {
			continue
		}
		res := Result{
			Name: "cluster/" + name, Value: value, Unit: unit[strings.IndexByte(unit, '-')+1:], Goal: goal, Met: value <= goal, N: clusterRounds,
			Min: value, Max: value, Conditions: "real etcd and kube-apiserver on this machine, recorded systemd, 5 ms a job; durable",
		}
		if unit == "p50-ms" {
			res.Min, res.Max = values["min-ms"], values["max-ms"]
		} else {
			res.Name += "/written"
		}
		if err := r.add(res); err != nil {
			return err
		}
	}
	return nil
}
