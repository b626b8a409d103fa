package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// rolloutNodes is the size of the pool.
const rolloutNodes = "5000"

// rollouts are the figures of TestALargeFleet, which prints them as a benchmark does.
var rollouts = benchmark{
	name:   "LargeFleet",
	in:     "./test/fleet",
	prefix: "rollout/",
	n:      1,
	figures: []figure{
		{"configuration", "configuration", "min", 10},
		{"configuration/polls", "configuration", "polls", 20},
		{"configuration/requests", "configuration", "requests", 10},
		{"configuration/conflicts", "configuration", "conflicts", noGoal},
		{"system", "system", "min", 45},
		{"system/polls", "system", "polls", 20},
		{"system/requests", "system", "requests", 10},
		{"system/conflicts", "system", "conflicts", noGoal},
		{"bad/touched", "bad", "touched", 1},
	},
	conditions: "5,000 real agents in one process, in virtual time, at an API server in memory; " +
		"a request takes up to 40 ms; 5 % may be away; a kubelet restarts in 15 s, a machine in 100 s; polls and other " +
		"requests are of a node and change, without renewals of Leases",
}

// realRollout is a smaller pool at a real API server, and one of that size.
var realRollout = benchmark{
	name:   "Rollout",
	in:     "./test/recorded",
	prefix: "rollout/real/",
	rounds: 1,
	n:      1,
	figures: []figure{
		{"configuration", "1000", "min", noGoal},
		{"polls", "1000", "polls", 20},
		{"requests", "1000", "requests", 10},
		{"conflicts", "1000", "conflicts", noGoal},
		{"p99", "1000", "p99-ms", 1000},
		{"large/configuration", "5000", "min", noGoal},
		{"large/polls", "5000", "polls", 20},
		{"large/requests", "5000", "requests", 10},
		{"large/conflicts", "5000", "conflicts", noGoal},
		{"large/p99", "5000", "p99-ms", 1000},
	},
	conditions: "1,000 agents, or 5,000 (large), in one process, etcd and kube-apiserver with the admission " +
		"policies, all on this machine; 5 % may be away, a kubelet restarts in 15 s; requests " +
		"are of a node and change, by the audit log, without renewals of Leases; p99 is of all " +
		"of them but watches",
}

// realStatus is what a person sees of a rollout.
var realStatus = benchmark{
	name:   "RolloutStatus",
	in:     "./test/recorded",
	prefix: "rollout/status",
	rounds: 20,
	n:      20,
	figures: []figure{
		{"", "status", "p50-ms", 500},
		{"/nodes", "status", "nodes-kB", 50},
		{"/ledger", "status", "ledger-kB", noGoal},
	},
	conditions: "loamctl rollout status of 5,000 Nodes with 20 images each, of which 250 have " +
		"a turn, from its start to its end; etcd and kube-apiserver on this machine; answers " +
		"as they are sent",
}

// curve is a rollout as test/fleet records it.
type curve struct {
	Name    string `json:"name"`
	Nodes   int    `json:"nodes"`
	Most    int    `json:"most"`
	Seconds int    `json:"seconds"`
	Done    []int  `json:"done"`
	Away    []int  `json:"away"`
}

// curvesFile has the curves of the last run, in dir and in plotDirectory.
const curvesFile = "rollout.json"

// measureRollouts measures a pool in virtual time.
func measureRollouts(ctx context.Context, r *report) error {
	curves, err := filepath.Abs(filepath.Join(dir, curvesFile))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "3h", "-v",
		"-run", "^TestALargeFleet$", rollouts.in)
	cmd.Env = append(os.Environ(), "CI=true", "LOAM_FLEET="+rolloutNodes,
		"LOAM_FLEET_CURVES="+curves)
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("measure rollouts: %w\n%s", err, text)
	}
	if err := rollouts.take(text, r); err != nil {
		return err
	}
	if err := realStatus.measure(ctx, r); err != nil {
		return err
	}
	return realRollout.measure(ctx, r)
}

// Sizes of the plot of rollouts, in pixels.
const (
	curvesLeft  = 60
	curvesRight = plotWidth - plotMargin
	doneHeight  = 90
	awayHeight  = 50
	curvesRow   = doneHeight + awayHeight + 66
)

// titles say what each curve is.
var titles = map[string]string{
	"configuration": "A configuration that restarts the kubelet",
	"system":        "Another system",
	"bad":           "A configuration that fails on every node",
}

// drawRollouts draws the curves in file, or else those that into has, into that
// directory.
func drawRollouts(into, file string) error {
	kept := filepath.Join(into, curvesFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(kept)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // They were not measured yet.
	}
	if err != nil {
		return err
	}

	var curves []curve
	if err := json.Unmarshal(text, &curves); err != nil {
		return fmt.Errorf("%s: %w", curvesFile, err)
	}
	if err := os.WriteFile(kept, text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, "rollout.svg"), plotCurves(curves), 0o644)
}

// plotCurves draws a panel for each rollout: how many nodes are done, and below that
// how many are away, to how many may be.
func plotCurves(curves []curve) []byte {
	height := plotMargin + curvesRow*len(curves)
	var b bytes.Buffer
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
			`font-family="system-ui, sans-serif" font-size="12" fill="#24292f">`+"\n",
		plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#ffffff"/>`+"\n", plotWidth, height)

	for i, c := range curves {
		top := plotMargin + curvesRow*i
		label(&b, plotMargin, top+10, "start", `font-size="15" font-weight="600"`, titles[c.Name])

		done := top + 24
		line(&b, c.Done, c.Nodes, done, doneHeight, "#4c8f5b")
		label(&b, curvesLeft-6, done+10, "end", "", fmt.Sprint(c.Nodes))
		label(&b, curvesLeft-6, done+doneHeight, "end", "", "done")

		away := done + doneHeight + 8
		line(&b, c.Away, c.Most, away, awayHeight, "#c4622d")
		fmt.Fprintf(&b, `<path d="M%d %d H%d" stroke="#24292f" stroke-dasharray="3 3"/>`+"\n",
			curvesLeft, away, curvesRight)
		label(&b, curvesLeft-6, away+10, "end", "", fmt.Sprint(c.Most))
		label(&b, curvesLeft-6, away+awayHeight, "end", "", "away")

		label(&b, curvesLeft, away+awayHeight+16, "middle", "", "0")
		label(&b, curvesRight, away+awayHeight+16, "end", "",
			fmt.Sprintf("%d min", (len(c.Done)-1)*c.Seconds/60))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// line fills what is below values, of which most reaches up to top.
func line(b *bytes.Buffer, values []int, most, top, height int, color string) {
	bottom := top + height
	fmt.Fprintf(b, `<path fill="%s" d="M%d %d`, color, curvesLeft, bottom)
	for i, v := range values {
		x := curvesLeft + float64(curvesRight-curvesLeft)*float64(i)/float64(max(1, len(values)-1))
		fmt.Fprintf(b, " L%.1f %.1f", x, float64(bottom)-float64(height*v)/float64(most))
	}
	fmt.Fprintf(b, ` V%d Z"/>`+"\n", bottom)
	fmt.Fprintf(b, `<path d="M%d %d H%d" stroke="#24292f"/>`+"\n", curvesLeft, bottom, curvesRight)
}
