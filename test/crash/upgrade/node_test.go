package upgrade_test

import (
	"context"
	"io"
	"time"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/gpt"
)

// node is an upgrade.Host with the state that a test gives it.
type node struct {
	health    upgrade.Health
	evidence  func(ctx context.Context) []string
	loader    []byte
	loaderErr error
}

func (n *node) Health(context.Context) upgrade.Health { return n.health }

func (n *node) Evidence(ctx context.Context, _ upgrade.Journal) []string {
	if n.evidence == nil {
		return nil
	}
	return n.evidence(ctx)
}

func (n *node) HandOver(string, bool) error { return nil }

func (n *node) Loader() ([]byte, error) { return n.loader, n.loaderErr }

func (n *node) Panic() error { return errPanics }

// machine is an service.Machine; rebooted is called for a restart.
type machine struct{ rebooted func() }

func (machine) Uptime() time.Duration { return time.Minute }

func (machine) Proven() {}

func (machine) Event(bool, string, string) {}

func (machine) RestartDue(string) {}

func (m machine) Reboot(context.Context) error {
	m.rebooted()
	return nil
}

// hearing is an upgrade.Listener.
type hearing struct {
	done     func(op upgrade.Op)
	progress func(p disk.Progress)
}

func (h hearing) Done(op upgrade.Op, _ *upgrade.Journal) { h.done(op) }

func (h hearing) Progress(p disk.Progress) {
	if h.progress != nil {
		h.progress(p)
	}
}

// sections are the partitions of a disk.
type sections struct{ disk device.Device }

func (s sections) Open(p gpt.Partition) (disk.Closer, error) {
	return section{s.disk, p.Start, p.End()}, nil
}

func (s sections) OpenRunning(p gpt.Partition) (io.ReaderAt, io.Closer, error) {
	d := section{s.disk, p.Start, p.End()}
	return d, d, nil
}

// opening are partitions that are opened in another way.
type opening struct {
	disk.Partitions
	open func(p gpt.Partition) (disk.Closer, error)
}

func (o opening) Open(p gpt.Partition) (disk.Closer, error) { return o.open(p) }
