package loop

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// events are the places from which the loop hears, nil for a silent one.
type events struct {
	units           <-chan string
	source          <-chan struct{}
	contents, drift <-chan []string
	volumes         <-chan *status.Volume
	etcdVolumes     <-chan *status.Volume
	disks           <-chan []status.Disk
	jobs            <-chan struct{}
	// Each receives when a part of the status that others observe may be
	// another.
	linked, network, ownCluster, upgrades <-chan struct{}
	shells                                <-chan shell
}

// errNoEvents is the end of a watch.
var errNoEvents = errors.New("no more events")

// listen begins before the first observation, so that no change is missed.
func (r *runner) listen(ctx context.Context, l *Loop) error {
	units, err := l.Units.Changes(ctx)
	if err != nil {
		return err
	}

	e := events{
		units:       units,
		source:      r.watch(ctx, l.Source),
		contents:    l.Contents,
		volumes:     l.Volumes,
		etcdVolumes: l.EtcdVolumes,
		disks:       l.Disks,
		shells:      openShells(ctx, l.Units, l.DebugShells, r.others),
	}
	if l.Jobs != nil {
		e.jobs = l.Jobs.Changed
	}
	if l.Drift != nil {
		e.drift = l.Drift.Events()
	}
	if l.Cluster != nil {
		e.linked = l.Cluster.Linked()
	}
	if l.Network != nil {
		e.network = l.Network.Changed()
	}
	if l.OwnCluster != nil {
		e.ownCluster = l.OwnCluster.Changed()
	}
	if l.Upgrades != nil {
		e.upgrades = l.Upgrades.Changed()
	}

	r.events = e
	return nil
}

// watch watches a source, which may be nil.
func (r *runner) watch(ctx context.Context, source source.Source) <-chan struct{} {
	if source == nil {
		return nil
	}

	changed, err := source.Watch(ctx)
	if err != nil {
		r.node.warn("watch the source", err)
		return nil
	}
	return changed
}

// wait takes in the next event.
func (r *runner) wait(ctx context.Context) error {
	n := r.node
	e := &r.events
	select {
	case <-ctx.Done():
	case done := <-r.done:
		r.merge(ctx, done.step, done.result)
	case request := <-r.admitted():
		r.handle(ctx, request)
	case q := <-r.queries:
		q <- r.sample()
	case _, ok := <-e.source:
		if !ok && ctx.Err() == nil {
			n.warn("watch the source", errNoEvents)
		}
		if !ok {
			e.source = nil
		}
		n.state = n.state.reread() // The end of a watch may have hidden a change.
	case _, ok := <-e.contents:
		if !ok {
			e.contents = nil
			break
		}
		n.alarms.soon(readAlarm, quietPeriod)
	case name, ok := <-e.units:
		if !ok {
			return ErrDisconnected
		}
		if n.state.concerns(name) {
			n.alarms.soon(observeAlarm, quietPeriod)
		}
	case paths, ok := <-e.drift:
		if !ok {
			e.drift = nil
			n.warn("watch managed paths", errNoEvents)
			n.state = n.state.unguard()
			break
		}
		n.checkWatches()
		n.state = n.state.touch(paths)
	case n.state.Facts.Volume = <-e.volumes:
	case n.state.Facts.EtcdVolume = <-e.etcdVolumes:
	case disks := <-e.disks:
		r.disksRead(ctx, disks)
	case <-e.jobs:
		n.alarms.soon(jobAlarm, slowJob)
	case <-e.linked:
		n.show(ctx)
	case <-e.network:
		n.show(ctx)
	case <-e.ownCluster:
		n.show(ctx)
	case <-e.upgrades:
		n.show(ctx)
	case s := <-e.shells:
		n.shellOpened(s)
	case <-n.alarms.c():
		for _, which := range n.alarms.due() {
			r.ring(ctx, which)
		}
	}

	return nil
}
