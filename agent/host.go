package agent

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/clock/rtc"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/probe"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/agent/unit"
)

// host implements [loop.Host] for a node.
type host struct {
	life   *life
	pulled *decode.Images
	end    context.CancelCauseFunc
}

// Ready implements [loop.Host].
func (h host) Ready() error { return unit.Ready() }

// FreeMemory implements [loop.Host].
func (h host) FreeMemory() { FreeMemory() }

// Alive implements [loop.Host].
func (h host) Alive() error { return unit.Alive() }

// Uptime implements [loop.Host].
func (h host) Uptime() time.Duration { return h.life.Uptime() }

// Storage implements [loop.Host].
func (h host) Storage() []storage.Usage { return storage.Observe(h.life.root) }

// Limits implements [loop.Host].
func (h host) Limits(before []status.Limit) []limits.Usage {
	return limits.Observe(h.life.root.FS(), before, h.life.managed.Err(), h.life.contents.Err())
}

// Threads implements [loop.Host].
func (h host) Threads() limits.Usage { return limits.ObserveThreads(h.life.root.FS()) }

// DoubtClock implements [loop.Host].
func (h host) DoubtClock() *status.WrongClock {
	built, err := h.life.Built()
	if err != nil {
		return nil // Nothing says which clock cannot be right.
	}
	return rtc.Doubt(rtc.Observe(h.life.root, h.life.Now(), built))
}

// TakenBack implements [loop.Host].
func (h host) TakenBack(current string) *status.TakenBack {
	state, err := fs.Sub(h.life.root.FS(), strings.TrimPrefix(generation.Dir, "/"))
	if err != nil {
		return nil // The path is valid.
	}
	records, err := apply.History(state)
	if err != nil {
		h.life.Log.Error("find out what was taken back", zap.Error(err))
	}
	return takenBack(records, current)
}

// takenBack returns the last change of a history if the node took it back to the
// current generation; nil if it did not.
func takenBack(records []apply.Record, current string) *status.TakenBack {
	if len(records) == 0 {
		return nil
	}
	last := records[len(records)-1]
	if !last.IsTakenBack() || last.Generation != current {
		return nil
	}
	return &status.TakenBack{Generation: last.From, Why: last.Reason}
}

// Publish writes the status for `loam status` and shows it on the consoles.
func (h host) Publish(s status.Status, news bool) error {
	s.AgentRSS = metrics.Resident()
	err := h.life.files.Do(func() error { return status.Write(durable.New(h.life.root, nil), s) })
	if err != nil {
		h.life.Log.Error("write the status", zap.Error(err))
	}
	if h.life.Consoles != nil {
		h.life.Consoles.Show(s, news)
	}
	return err
}

// Reach implements [loop.Host].
func (h host) Reach(ctx context.Context, p config.Probe) error { return probe.Reach(ctx, p) }

// Proven releases the images that were pulled for the change, and has the node's own
// cluster go on.
func (h host) Proven(ctx context.Context) {
	if h.life.controlPlane != nil {
		h.life.controlPlane.Proven()
	}
	h.pulled.Release(ctx, h.life.Log)
}

// End implements [loop.Host].
func (h host) End(why error) { h.end(why) }

// remember keeps from an earlier run of the agent in this boot when its
// generation was applied, so that it is not announced again, and what its disks
// said: one that fails may not answer any more.
func (n *node) remember() {
	before := saidBefore(n.root)
	n.status.Disks = before.Disks
	if before.AppliedAt == 0 {
		return
	}
	current, ok, err := n.engine.Current()
	if err == nil && ok && current.Name() == before.Generation {
		n.status.AppliedAt = before.AppliedAt
		if n.Consoles != nil {
			n.Consoles.Announced(before.Generation)
		}
	}
}

// saidBefore is the status that an earlier run of the agent in this boot left,
// the zero Status if none did.
func saidBefore(root *os.Root) status.Status {
	text, err := root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if err != nil {
		return status.Status{}
	}
	before, err := status.Parse(text)
	if err != nil {
		return status.Status{}
	}
	return before
}
