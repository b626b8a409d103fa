// Package reset takes a node back to before its first configuration: it removes
// units, files, generations and their content, pods, identity, the kubelet's data,
// and what kube-proxy has left in the kernel.
//
// A reset takes two runs of the agent. The first calls [Reset.Begin], which
// only writes the record, and ends. The next one calls [Open], finds the
// record, reads no source and joins no cluster, and calls [Reset.Run]. So
// nothing of the previous agent is left, in particular no session with the
// cluster, and a power cut needs no special case: Run may be called again at
// any time, and each of its steps finds the rest of its work.
//
// An encrypted state loses its key at the end, and the machine restarts with a
// new one.
//
// A reset holds until an operator ends it ([Reset.Forget]) or machine.yaml
// changes ([Reset.Observe]).
package reset

import (
	"context"
	"encoding/json"
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
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/pods"
	"github.com/loam-os/loam/agent/proxy"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
)

// Engine removes the configuration; see apply.Executor.
type Engine interface {
	Reset(ctx context.Context) error
}

// Units is systemd; see unit.Systemd.
type Units interface {
	Show(ctx context.Context, names []string) ([]unit.State, error)
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
}

// Tokens names the files with the tokens of the node's cluster.
type Tokens interface {
	TokenFiles() []string
}

// Env is the node that is reset, and what a reset needs of it.
type Env struct {
	Engine Engine
	Units  Units
	Mounts mount.System
	Tokens Tokens
	// Pods stops and removes every pod.
	Pods func(ctx context.Context) error
	// Rules deletes the rules of the kube-proxy of the node's own cluster.
	Rules func(ctx context.Context) error
	// Trim has the disk forget what was deleted from the file system at dir.
	Trim func(dir string) error
	// DropKey makes an encrypted state unreadable from the next boot on, which
	// makes a new one with this record of the reset. It is nil for a state that
	// is not encrypted.
	DropKey func(record string) error
	// Restart restarts the machine.
	Restart func(ctx context.Context) error
	// Root is the path of the root directory, Node the directory itself.
	Root string
	Node *durable.Dir
	Now  func() time.Time
	// JobTimeout is how long a unit may take to start or stop.
	JobTimeout time.Duration
}

// Reset is the reset of one node in one run of the agent.
type Reset struct {
	env Env
	// record is nil if the node is in no reset. Only Observe changes whether it
	// is, only Run what it says.
	record *record
	// machine is the digest of machine.yaml, empty without one.
	machine string
}

// Open reads the record. An unreadable record is an error, and the node is in a
// reset all the same.
func Open(env Env) (*Reset, error) {
	record, err := readRecord(env.Node)
	return &Reset{env: env, record: record}, err
}

// Active reports whether the node is in a reset. It may be called while Run
// runs.
func (r *Reset) Active() bool { return r.record != nil }

// Status returns what the node's status shows, nil if the node is in no reset.
func (r *Reset) Status() *status.Reset {
	if r.record == nil {
		return nil
	}
	return &status.Reset{At: r.record.At, Done: r.record.Done}
}

// Run carries out the reset, or all of it again. A step that fails does not
// keep it from the next one. The reset is done when configuration and identity
// are gone, even if the error names pods or processes that are still there, or a
// volume that is not.
func (r *Reset) Run(ctx context.Context) error {
	required := []error{r.stopKubelet(ctx)}
	bestEffort := []error{r.stopPods(ctx), r.missingVolumes()}

	// The data volume must be empty before the engine runs, which may unmount
	// it.
	directories, _ := cluster.Identity()
	for _, dir := range directories {
		if r.isMountPoint(dir) {
			required = append(required, r.empty(ctx, r.path(dir)))
			bestEffort = append(bestEffort, r.env.Trim(r.path(dir)))
		}
	}

	err := r.env.Engine.Reset(ctx)
	if errors.Is(err, apply.ErrUnfinished) {
		required = append(required, err)
	} else {
		bestEffort = append(bestEffort, err)
	}

	bestEffort = append(bestEffort, r.deleteRules(ctx))
	required = append(required, r.forgetIdentity(ctx), ctx.Err())
	if errors.Join(required...) == nil {
		required = append(required, r.finish(ctx))
	}
	r.record.Done = errors.Join(required...) == nil

	// Deleting a file leaves its content on the disk.
	bestEffort = append(bestEffort, r.env.Trim(r.path("/var")))
	for _, dir := range plane.Directories() {
		if r.isMountPoint(dir) {
			bestEffort = append(bestEffort, r.env.Trim(r.path(dir)))
		}
	}
	return errors.Join(slices.Concat(required, bestEffort)...)
}

// finish records that the reset is done. An encrypted state loses its key, so the
// record goes to the next one.
func (r *Reset) finish(ctx context.Context) error {
	done := *r.record
	done.Done = true
	if r.env.DropKey == nil {
		return done.write(r.env.Node)
	}

	done.Tokens = nil // They were in the state.
	text, err := json.Marshal(done)
	if err != nil {
		return fmt.Errorf("record the reset: %w", err)
	}
	if err := r.env.DropKey(string(text)); err != nil {
		return err
	}
	return r.env.Restart(ctx)
}

// pluginDirectory is what /usr/libexec/kubernetes leads to: programs that pods
// have installed, and that the kubelet runs.
const pluginDirectory = "/var/usrlibexec/kubernetes"

// kubeletUnit is stopped first: the kubelet would start pods again, and write
// files that the reset removes.
const kubeletUnit = "kubelet.service"

func (r *Reset) stopKubelet(ctx context.Context) error {
	states, err := r.env.Units.Show(ctx, []string{kubeletUnit})
	if err != nil {
		return fmt.Errorf("observe %s: %w", kubeletUnit, err)
	}
	if len(states) == 1 && states[0].Stopped() {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, r.env.JobTimeout)
	defer cancel()
	return r.env.Units.Stop(ctx, kubeletUnit)
}

// shims has a directory for each running container of a pod
// (containerd, core/runtime/v2/bundle.go), even while containerd does not run.
const shims = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// stopPods starts containerd if it does not run and may have left pods.
func (r *Reset) stopPods(ctx context.Context) error {
	_, err := os.Lstat(r.path(pods.Socket))
	if !errors.Is(err, fs.ErrNotExist) {
		return r.env.Pods(ctx)
	}

	running, err := os.ReadDir(r.path(shims))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(running) == 0) {
		return nil
	}
	if err := r.startContainerd(ctx); err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	return r.env.Pods(ctx)
}

func (r *Reset) startContainerd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.env.JobTimeout)
	defer cancel()
	return r.env.Units.Start(ctx, cri.Unit)
}

// deleteRules deletes what kube-proxy has left in the kernel, of a node that is a
// cluster. The engine has stopped it.
func (r *Reset) deleteRules(ctx context.Context) error {
	_, err := os.Lstat(r.path(plane.RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.env.Rules(ctx)
}

// forgetIdentity removes what identifies the node to its cluster and its pods,
// and the cluster that the node has made.
func (r *Reset) forgetIdentity(ctx context.Context) error {
	directories, files := cluster.Identity()
	var errs []error
	own := []string{source.AcceptedName, proxy.File}
	for _, name := range slices.Concat(files, r.record.Tokens, own) {
		name = strings.TrimPrefix(name, "/")
		errs = append(errs, r.env.Node.Discard(name))
		if _, err := r.env.Node.Root().Lstat(name); err == nil {
			errs = append(errs, r.env.Node.Remove(name))
		}
	}

	for _, dir := range slices.Concat(directories, plane.Directories(), []string{pluginDirectory}) {
		errs = append(errs, r.empty(ctx, r.path(dir)))
	}
	return errors.Join(errs...)
}

// empty unmounts everything beneath dir, and deletes the content of dir that is
// not mounted.
func (r *Reset) empty(ctx context.Context, dir string) error {
	return errors.Join(mount.UnmountBelow(ctx, r.env.Mounts, dir), mount.Empty(dir))
}

// missingVolumes returns an error for each volume that the node has and that is not
// mounted: what is on it outlives the reset.
func (r *Reset) missingVolumes() error {
	var errs []error
	for _, p := range volume.Purposes() {
		record, _, err := p.ReadRecord(r.env.Node.Root().FS())
		errs = append(errs, err)
		if record.Made && !r.isMountPoint(p.Mountpoint) {
			errs = append(errs, hint.With(
				fmt.Errorf("the %s is not there, and keeps what is on it", p.Name),
				"reset the node again once its disk is plugged in, or wipe that disk elsewhere",
			))
		}
	}
	return errors.Join(errs...)
}

// isMountPoint reports whether something is mounted at dir. Best effort:
// without the mount table, forgetIdentity empties dir later.
func (r *Reset) isMountPoint(dir string) bool {
	table, err := r.env.Mounts.Table()
	if err != nil {
		return false
	}
	_, mounted := table.At(r.path(dir))
	return mounted
}

func (r *Reset) path(name string) string { return filepath.Join(r.env.Root, name) }
