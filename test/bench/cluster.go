package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// benchmark is a benchmark of a package, and the figures that are taken from
// it.
type benchmark struct {
	name, in string
	// prefix begins the names of the figures.
	prefix string
	// rounds is the number of iterations to run, n the number of samples that
	// this gives.
	rounds, n  int
	figures    []figure
	conditions string
}

// figure is a result: part of the benchmark reports it under unit.
type figure struct {
	result, part, unit string
	// goal may be noGoal.
	goal float64
}

// noGoal is the goal of a figure that others are compared with.
const noGoal = -1

// The agent at a real API server. A round of Idle is a second, one of Fleet a
// change.
var clusterBenchmarks = []benchmark{
	{
		"Reaction",
		"./test/recorded",
		"cluster/",
		30,
		30,
		[]figure{
			{"small", "small", "p50-ms", 25},
			{"one-of-200", "one-of-200", "p50-ms", 50},
			{"all-200", "all-200", "p50-ms", 200},
			{"all-200/written", "all-200", "written-MB", 2},
			{"node-appears", "node-appears", "p50-ms", 100},
			{"start-small", "start-small", "p50-ms", 150},
			{"start-200", "start-200", "p50-ms", 400},
		},
		"real etcd and kube-apiserver on this machine, recorded systemd, 5 ms a job; durable",
	},
	{
		"Change",
		"./test/recorded",
		"change/",
		20,
		20,
		[]figure{
			{"small", "small", "p50-ms", 15},
			{"small/cpu", "small", "cpu-ms", 8},
			{"one-of-200", "one-of-200", "p50-ms", 45},
			{"one-of-200/cpu", "one-of-200", "cpu-ms", 30},
			{"one-of-200/calls", "one-of-200-calls", "calls", 2500},
			{"one-of-200/switches", "one-of-200", "switches", 300},
			{"one-of-200/written", "one-of-200", "written-KiB", 64},
			{"all-200", "all-200", "p50-ms", 120},
			{"all-200/cpu", "all-200", "cpu-ms", 120},
			{"all-200/calls", "all-200-calls", "calls", 15_000},
			{"all-200/written", "all-200", "written-KiB", 1024},
			{"one-of-2000", "one-of-2000", "p50-ms", 67.5},
			{"one-of-2000/to-200", "one-of-2000", "ratio", 1.5},
		},
		"real etcd and kube-apiserver on this machine; a systemd of D-Bus with 5 ms a job, " +
			"and the agent, each in a process of its own; system calls in rounds of their own, " +
			"by strace; an ext4 file system with a journal, on a loop device, durable",
	},
	{
		"Start",
		"./test/recorded",
		"start/",
		10,
		10,
		[]figure{
			{"small", "small", "p50-ms", 40},
			{"200", "one-of-200", "p50-ms", 150},
		},
		"from the start of the process to the Node's annotation, on an empty node; " +
			"the rest as for change",
	},
	referenceChange,
	referenceStart,
	{
		"Idle",
		"./test/recorded",
		"cluster/",
		300,
		1,
		[]figure{
			{"idle/requests", "200-files", "requests/min", 7},
			{"idle/wakeups", "200-files", "wakeups/s", 5},
			{"idle/cpu", "200-files", "cpu-%", 0.05},
			{"idle/rss", "200-files", "rss-MB", 40},
			{"idle/written", "200-files", "written-B", 0},
		},
		"5 minutes, 200 files and 50 units, kubelet and containerd probed, recorded systemd; " +
			"the agent has its own process; wake-ups are voluntary context switches, " +
			"CPU is of one core",
	},
	{
		"Fleet",
		"./test/recorded",
		"cluster/",
		5,
		5,
		[]figure{
			{"fleet/reach", "1000", "p50-ms", 10_000},
			{"fleet/requests", "1000", "requests/change", 4},
		},
		"1,000 agents in one process, etcd and kube-apiserver with its default limits, " +
			"all on this machine; 1 unit, 1 file, recorded systemd, 5 ms a job; " +
			"without renewals of Leases",
	},
}

// A machine that is a cluster: its control plane, and the bundle that has it. Of
// ControlPlane's idle part, a round is a minute.
var controlPlaneBenchmarks = []benchmark{
	{
		"ControlPlane",
		"./test/plane",
		"control-plane/",
		5,
		5,
		[]figure{
			{"empty-disk", "empty-disk", "p50-ms", 3000},
			{"again", "again", "p50-ms", 3000},
			{"renewal", "renewal", "max-ms", 3000},
			{"idle/written", "idle", "written-MB", 0.7},
		},
		"with the flags that a node renders, on this machine; durable. From the start of etcd to " +
			"/readyz of kube-apiserver; the longest time between two writes while all certificates " +
			"are renewed, which restarts etcd; what etcd writes in a minute of a cluster of one " +
			"node in which nothing happens",
	},
	{
		"KubernetesBundle",
		"./test/plane",
		"kubernetes-bundle/",
		3,
		3,
		[]figure{
			{"packed", "make", "packed-MB", 110},
			{"plain", "make", "plain-MB", noGoal},
			{"make", "make", "p50-ms", noGoal},
			{"fetch", "fetch", "p50-ms", noGoal},
		},
		"etcd, etcdutl, Kubernetes, CoreDNS with the plugins of a cluster, and pause, as " +
			"test/cluster builds them; fetched over loopback; durable",
	},
}

// measureCluster measures recorded nodes at a real API server.
func measureCluster(ctx context.Context, r *report) error {
	return measureAll(ctx, r, clusterBenchmarks...)
}

func measureAll(ctx context.Context, r *report, all ...benchmark) error {
	for _, b := range all {
		if err := b.measure(ctx, r); err != nil {
			return fmt.Errorf("measure %s: %w", b.name, err)
		}
	}
	return nil
}

func (b benchmark) measure(ctx context.Context, r *report) error {
	build, err := filepath.Abs(out)
	if err != nil {
		return err
	}

	disk, err := newNodeDisk(ctx, dir)
	if err != nil {
		return err
	}
	cmd := disk.command(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark"+b.name+"$",
		"-benchtime", fmt.Sprintf("%dx", b.rounds), "-timeout", "2h", b.in)

	// With CI=true missing programs fail the test instead of skipping it.
	cmd.Env = append(os.Environ(), "CI=true", "LOAM_BUILD="+build,
		"LOAM_BENCH_DIR="+disk.mountpoint)
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}

	return b.take(text, r)
}

// take reports the figures that are in the output of the benchmark.
func (b benchmark) take(text []byte, r *report) error {
	found := b.parse(text)
	for _, f := range b.figures {
		values := found[f.part]
		value, ok := values[f.unit]
		if !ok {
			return fmt.Errorf("no %s of %s in its output:\n%s", f.unit, f.part, text)
		}
		if err := r.add(b.result(f, value, values)); err != nil {
			return err
		}
	}

	return nil
}

// result is a figure; a median has its extremes beside it.
func (b benchmark) result(f figure, value float64, values map[string]float64) Result {
	res := Result{
		Name:       b.prefix + f.result,
		Value:      value,
		Unit:       strings.TrimPrefix(f.unit, "p50-"),
		Goal:       f.goal,
		Met:        value <= f.goal,
		N:          b.n,
		Min:        value,
		Max:        value,
		Conditions: conditions(b.conditions),
	}

	if f.goal == noGoal {
		res.Goal = 0
		res.Met = true
		res.NoGoal = true
	}

	if f.unit == "p50-ms" {
		res.Min = values["min-ms"]
		res.Max = values["max-ms"]
	} else if _, unit, ok := strings.Cut(f.unit, "-"); ok {
		res.Unit = unit
	}

	return res
}

// isLogged matches the place that begins a line of a test's log.
var isLogged = regexp.MustCompile(`^\w+\.go:\d+:$`)

// parse returns what each part of the benchmark reports, by unit. What a
// program writes meanwhile may part a name from its figures.
func (b benchmark) parse(out []byte) map[string]map[string]float64 {
	found := map[string]map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)

	prefix := "Benchmark" + b.name + "/"
	processors := fmt.Sprintf("-%d", runtime.GOMAXPROCS(0))
	part := ""
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 0 && strings.HasPrefix(fields[0], prefix) {
			part = strings.TrimSuffix(strings.TrimPrefix(fields[0], prefix), processors)
			found[part] = map[string]float64{}
		} else if len(fields) > 0 && isLogged.MatchString(fields[0]) {
			continue // Perhaps of the next part.
		}
		for i := 1; i < len(fields) && part != ""; i++ {
			if v, err := strconv.ParseFloat(fields[i-1], 64); err == nil {
				found[part][fields[i]] = v
			}
		}
	}

	return found
}
