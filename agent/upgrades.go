package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/firmware/bootentry"
)

// Upgrades bring other systems; see upgrade.Service.
type Upgrades interface {
	State() *status.Upgrade
	Changed() <-chan struct{}
}

const (
	defaultPace  = time.Hour
	defaultTrial = 10 * time.Minute
)

// upgrades are the node's, if it runs from a disk that they can be written to.
func (env Env) upgrades(a *Agent, engine *apply.Executor, systemd *unit.Systemd, record boot.Record, from machine.Upgrade, queries Queries) (*upgrade.Service, io.Closer, error) {
	if record.Root == "" {
		return nil, nil, nil // Not started by /init from a disk.
	}
	disk, closer, err := upgrade.OpenDisk(record.Root)
	if err != nil {
		return nil, nil, fmt.Errorf("upgrades: %w", err)
	}
	entry, err := bootentry.Format(bootentry.Name{
		ImageID: a.Status.ImageID, Version: a.Status.ImageVersion, Arch: bootentry.Arch(disk.Arch), Counted: true, TriesLeft: upgrade.Tries,
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("upgrades: %w", err), closer.Close())
	}
	files := upgrade.Files{Dir: engine.State}
	watch := vitals{root: env.Root, queries: queries, cluster: a.Cluster}
	u := &upgrade.Upgrader{
		Disk: disk, Keep: files, Scratch: files.Scratch, Running: upgrade.System{Version: a.Status.ImageVersion, RootHash: record.RootHash},
		ImageID: a.Status.ImageID, Entry: entry, OtherDisk: record.OtherLoader, Health: watch.health, Evidence: evidence, Panic: upgrade.Panic, Carry: engine.Carry, Now: env.Now, Log: env.Log,
	}
	bootID, err := bootID()
	if err != nil {
		return nil, nil, errors.Join(err, closer.Close())
	}
	u.BootID = bootID
	pace, limit := durationOr(from.Pace, defaultPace), durationOr(from.Trial, defaultTrial)
	trial, err := u.Trial(limit)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("upgrades: %w", err), closer.Close())
	}
	restarts, err := window.Parse(from.Window)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("upgrades: %w", err), closer.Close())
	}
	var tell func(bool, string, string)
	if a.Cluster != nil {
		tell = a.Cluster.Event
	}
	return upgrade.New(&upgrade.Service{
		Upgrader: u, Offers: upgrade.Offers{Ref: from.Repository, Root: []byte(from.Root), Keep: files},
		Mirrors: from.Mirrors, Want: from.Version, Tell: tell, Proven: func() { env.proven(systemd) }, Pace: pace, Window: restarts, Trial: trial, Uptime: env.Uptime, Reboot: systemd.Reboot, Log: env.Log,
	}), closer, nil
}

// proven takes away what /init had systemd do in case the trial fails.
func (env Env) proven(systemd *unit.Systemd) {
	ctx, cancel := context.WithTimeout(context.Background(), jobWait)
	defer cancel()
	if err := errors.Join(boot.EndTrial(filepath.Join(env.Root, "run")), systemd.Reload(ctx)); err != nil {
		env.Log.Error("end the trial", zap.Error(err))
	}
}

// durationOr is a duration that was checked before, or the default.
func durationOr(text string, without time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return without
}

// vitals are what an upgrade compares before and after.
type vitals struct {
	root    string
	queries Queries
	cluster Cluster
}

// health asks everything that can tell how the node is.
func (v vitals) health(ctx context.Context) upgrade.Health {
	ctx, cancel := context.WithTimeout(ctx, metrics.Limit)
	defer cancel()
	s, err := v.queries.Take(ctx)
	if err != nil {
		return nil
	}
	h := unitHealth(s.Status)
	v.probe(ctx, h, s.Status)
	if v.cluster != nil {
		h["node"] = nodeHealth(v.cluster.Link(), s.Status.ControlPlane)
	}
	h["gateway"] = gatewayHealth(v.read("proc/net/route"), v.read("proc/net/ipv6_route"))
	return h
}

func (v vitals) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(v.root, name)) // Nothing is to be seen there, then.
	return string(text)
}

// unitHealth is how the configuration and its units are.
func unitHealth(s status.Status) upgrade.Health {
	h := upgrade.Health{}
	if s.Generation != "" {
		c := upgrade.Check{State: upgrade.Well}
		if s.Phase != status.Applied {
			c = upgrade.Check{State: upgrade.Ill, Detail: string(s.Phase)}
			if s.Error != nil {
				c.Detail = s.Error.Problem
			}
		}
		h["configuration"] = c
	}
	for _, u := range s.Units {
		c := upgrade.Check{State: upgrade.Well, Life: u.InvocationID}
		if !u.Settled {
			c = upgrade.Check{State: upgrade.Ill, Detail: u.Active + "/" + u.Sub}
		}
		h[upgrade.UnitCheck+u.Name] = c
	}
	return h
}

// probe asks containerd and kubelet themselves, where the configuration has them.
func (v vitals) probe(ctx context.Context, h upgrade.Health, s status.Status) {
	for name, ask := range map[string]func(context.Context) error{
		"containerd.service": liveness.Containerd(filepath.Join(v.root, liveness.ContainerdSocket)),
		"kubelet.service":    liveness.Kubelet(liveness.KubeletAddress),
	} {
		if liveness.StandingOf(name, s) == liveness.Absent {
			continue
		}
		c := upgrade.Check{State: upgrade.Well}
		if err := ask(ctx); err != nil {
			c = upgrade.Check{State: upgrade.Ill, Detail: err.Error()}
		}
		h[upgrade.AnswerCheck+name] = c
	}
}

// nodeHealth is how the cluster sees the node. An API server that cannot be
// reached says nothing about it, unless it is the node's own.
func nodeHealth(c status.Cluster, controlPlane bool) upgrade.Check {
	switch {
	case !c.Connected && controlPlane:
		return upgrade.Check{State: upgrade.Ill, Detail: "the API server, which is to run here, cannot be reached: " + c.Problem}
	case !c.Connected:
		return upgrade.Check{State: upgrade.Unclear, Detail: "the API server cannot be reached: " + c.Problem}
	case c.Node == "":
		return upgrade.Check{State: upgrade.Ill, Detail: "the cluster has no Node for it"}
	case !c.Ready:
		return upgrade.Check{State: upgrade.Ill, Detail: "Node " + c.Node + " is not ready"}
	}
	return upgrade.Check{State: upgrade.Well}
}

// gatewayHealth is whether there is a default route, by the texts of
// /proc/net/route and /proc/net/ipv6_route (proc_pid_net(5)).
func gatewayHealth(v4, v6 string) upgrade.Check {
	for line := range strings.Lines(v4) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return upgrade.Check{State: upgrade.Well}
		}
	}
	for line := range strings.Lines(v6) {
		if f := strings.Fields(line); len(f) > 9 && f[0] == strings.Repeat("0", 32) && f[1] == "00" && f[9] != "lo" {
			return upgrade.Check{State: upgrade.Well}
		}
	}
	return upgrade.Check{State: upgrade.Ill, Detail: "there is no default route"}
}

// evidence is what the boots of a system that failed have left: the end of the
// kernel's log of a panic, and of the journal of the boot before this one.
func evidence(ctx context.Context, _ upgrade.Journal) []string {
	const lines = 12
	var all []string
	dumps, _ := filepath.Glob("/sys/fs/pstore/dmesg-*")
	for _, name := range dumps {
		if text, err := os.ReadFile(name); err == nil {
			all = append(all, last(string(text), lines)...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "-o", "short-iso", "-b", "-1", "-p", "warning", "-n", fmt.Sprint(lines)).Output()
	if err == nil {
		all = append(all, last(string(text), lines)...)
	}
	return all
}

// last are the last lines of a text.
func last(text string, n int) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), 200)]
	}
	return lines
}
