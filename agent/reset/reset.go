// Package reset makes of a node one that was never configured.
package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/pods"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Env is the node that is reset, and what a reset needs of it.
type Env struct {
	Engine interface {
		Reset(ctx context.Context) error
	}
	Units interface {
		Show(ctx context.Context, names []string) ([]unit.State, error)
		Start(ctx context.Context, name string) error
		Stop(ctx context.Context, name string) error
	}
	// Pods stops and removes every pod.
	Pods   func(ctx context.Context) error
	Mounts mount.System
	// Tokens names the files with tokens of the cluster that machine.yaml names.
	Tokens interface{ TokenFiles() []string }
	// Root is the root directory, Node the same.
	Root string
	Node *durable.Dir
	Now  func() time.Time
	// JobWait is how long a unit may take to start or stop.
	JobWait time.Duration
}

// Reset makes of a node one that was never configured. The agent that is asked for
// it records that and ends: so that nothing else is left of it, a session with the
// cluster least of all, the work is the next one's, as it is after a power cut.
type Reset struct {
	Env
	// record is that of the reset which this agent carries out, nil for none.
	record *record
	// machine is the digest of machine.yaml.
	machine string
}

// Open reads the record of a reset. A record that cannot be read is an error, and
// a reset all the same.
func Open(env Env) (*Reset, error) {
	record, err := readRecord(env.Node)
	return &Reset{Env: env, record: record}, err
}

// Active reports whether the node is in a reset, at any time after Observe.
func (r *Reset) Active() bool { return r.record != nil }

// Status is what a person sees of it, nil where the node is in no reset.
func (r *Reset) Status() *status.Reset {
	if r.record == nil {
		return nil
	}
	return &status.Reset{At: r.record.At, Done: r.record.Done}
}

// Run carries out the reset, or all of it once more: each step finds what is left.
// One that fails does not keep it from the next. It is done when configuration and
// identity are gone.
func (r *Reset) Run(ctx context.Context) error {
	left, besides := []error{r.stopKubelet(ctx)}, []error{r.stopPods(ctx)}
	directories, _ := cluster.Identity()
	for _, dir := range directories {
		if r.isMountPoint(dir) {
			// A volume of its own, which may go with the configuration, and not what is on it.
			left = append(left, r.empty(ctx, r.path(dir)))
		}
	}
	if err := r.Engine.Reset(ctx); errors.Is(err, apply.ErrUnfinished) {
		left = append(left, err)
	} else {
		besides = append(besides, err)
	}
	left = append(left, r.forgetIdentity(ctx), ctx.Err())
	if errors.Join(left...) == nil {
		done := *r.record
		done.Done = true
		left = append(left, done.write(r.Node))
	}
	r.record.Done = errors.Join(left...) == nil
	return errors.Join(slices.Concat(left, besides)...)
}

// kubeletUnit is stopped first: it would start pods again, and write what is to go.
const kubeletUnit = "kubelet.service"

func (r *Reset) stopKubelet(ctx context.Context) error {
	states, err := r.Units.Show(ctx, []string{kubeletUnit})
	if err != nil {
		return fmt.Errorf("observe %s: %w", kubeletUnit, err)
	}
	if len(states) == 1 && states[0].Stopped() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.JobWait)
	defer cancel()
	return r.Units.Stop(ctx, kubeletUnit)
}

// running has a directory for each container of a pod that runs
// (containerd, core/runtime/v2/bundle.go), also while containerd itself does not.
const running = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

func (r *Reset) stopPods(ctx context.Context) error {
	if _, err := os.Lstat(r.path(pods.Socket)); errors.Is(err, fs.ErrNotExist) {
		if left, err := os.ReadDir(r.path(running)); errors.Is(err, fs.ErrNotExist) || err == nil && len(left) == 0 {
			return nil
		}
		starting, cancel := context.WithTimeout(ctx, r.JobWait)
		defer cancel()
		if err := r.Units.Start(starting, cri.Unit); err != nil {
			return fmt.Errorf("pods: %w", err)
		}
	}
	return r.Pods(ctx)
}

// forgetIdentity takes away who the node was, to its cluster and its pods.
func (r *Reset) forgetIdentity(ctx context.Context) error {
	directories, files := cluster.Identity()
	var errs []error
	for _, name := range slices.Concat(files, r.record.Tokens) {
		name = strings.TrimPrefix(name, "/")
		errs = append(errs, r.Node.Discard(name))
		if _, err := r.Node.Root().Lstat(name); err == nil {
			errs = append(errs, r.Node.Remove(name))
		}
	}
	for _, dir := range directories {
		errs = append(errs, r.empty(ctx, r.path(dir)))
	}
	return errors.Join(errs...)
}

// empty unmounts what is beneath dir, and deletes what is in it and is not mounted.
func (r *Reset) empty(ctx context.Context, dir string) error {
	return errors.Join(mount.UnmountBelow(ctx, r.Mounts, dir), mount.Empty(dir))
}

// isMountPoint reports whether something is mounted at dir.
func (r *Reset) isMountPoint(dir string) bool {
	table, err := r.Mounts.Table()
	if err != nil {
		return false
	}
	_, mounted := table.At(r.path(dir))
	return mounted
}

func (r *Reset) path(name string) string { return filepath.Join(r.Root, name) }
