package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
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
	if record.Root == "" || record.Memory {
		return nil, nil, nil // Not started by /init from a disk.
	}
	entry, err := bootentry.Format(bootentry.Name{
		ImageID: a.Status.ImageID, Version: a.Status.ImageVersion, Arch: bootentry.Arch(runtime.GOARCH), Counted: true, TriesLeft: upgrade.Tries,
	})
	boot, bootErr := bootID()
	restarts, windowErr := window.Parse(from.Window)
	files := upgrade.Files{Dir: engine.State}
	watch := vitals{root: env.Root, queries: queries, cluster: a.Cluster}
	u := &upgrade.Upgrader{
		Keep: files, Anchor: tpm.OfMachine(), Scratch: files.Scratch, Free: files.Free, Running: upgrade.System{Version: a.Status.ImageVersion, RootHash: record.RootHash},
		ImageID: a.Status.ImageID, Entry: entry, OtherDisk: record.OtherLoader, BootID: boot, Health: watch.health, Evidence: evidence,
		Loader: func() ([]byte, error) { return os.ReadFile(filepath.Join(env.Root, loader.Installed(runtime.GOARCH))) },
		Panic:  upgrade.Panic, Carry: engine.Carry, Sys: os.DirFS(filepath.Join(env.Root, "sys")), Now: env.Now, Log: env.Log,
	}
	trial, trialErr := u.Trial(durationOr(from.Trial, defaultTrial))
	if err := errors.Join(err, bootErr, windowErr, trialErr); err != nil {
		return nil, nil, fmt.Errorf("upgrades: %w", err)
	}
	disk, closer, err := upgrade.OpenDisk(record.Root)
	if err != nil {
		return nil, nil, fmt.Errorf("upgrades: %w", err)
	}
	u.Disk = disk
	built, err := clock.Built()
	if err != nil { // Updates expire by the clock alone, then.
		env.Log.Warn("when the kernel was built", zap.Error(err))
	}
	s := &upgrade.Service{
		Upgrader: u, Offers: upgrade.Offers{Ref: from.Repository, Root: []byte(from.Root), Keep: files, Built: built}, Mirrors: from.Mirrors, Node: a.Status.Hostname, Want: from.Version,
		Pace: durationOr(from.Pace, defaultPace), Window: restarts, Trial: trial, Uptime: env.Uptime, Proven: func() { env.proven(systemd) },
		Reboot: systemd.Reboot, Log: env.Log,
	}
	if a.Cluster != nil {
		s.Tell = a.Cluster.Event
	}
	return upgrade.New(s), closer, nil
}

// startUpgrades has them go on until ctx ends; nil where there are none.
func (env Env) startUpgrades(ctx context.Context, group *sync.WaitGroup, a *Agent, engine *apply.Executor, systemd *unit.Systemd, record boot.Record, from machine.Upgrade, queries Queries) (*upgrade.Service, error) {
	s, disk, err := env.upgrades(a, engine, systemd, record, from, queries)
	if err != nil || s == nil {
		return nil, err
	}
	a.Upgrades = s
	group.Go(func() {
		defer disk.Close()
		s.Run(ctx)
	})
	shared := s.Upgrader.Disk.Share(s.Upgrader.Running, env.Log)
	group.Go(func() { env.serveHTTP(ctx, from.Share, shared) })
	return s, nil
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
