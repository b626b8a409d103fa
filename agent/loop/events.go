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
		r.run(ctx, []Effect{Warn{What: "watch the source", Err: err}})
		return nil
	}
	return changed
}

// admitted are the requests that the loop takes: none while a step runs.
func (r *runner) admitted() <-chan *Request {
	if r.state.Busy {
		return nil
	}
	return r.loop.Requests
}

// wait takes in the next event, and does what it entails.
func (r *runner) wait(ctx context.Context) error {
	var effects []Effect
	e := &r.events
	select {
	case <-ctx.Done():
	case done := <-r.done:
		r.finish(ctx, done.step, done.result)
	case request := <-r.admitted():
		effects = admit(r.state, request)
	case q := <-r.loop.Queries:
		q <- r.sample()
	case _, ok := <-e.source:
		if !ok {
			e.source = nil
		}
		if !ok && ctx.Err() == nil {
			effects = []Effect{Warn{What: "watch the source", Err: errNoEvents}}
		}
		r.state = r.state.reread() // The end of a watch may have hidden a change.
	case _, ok := <-e.contents:
		if !ok {
			e.contents = nil
			break
		}
		effects = []Effect{SetAlarm{Which: readAlarm, In: quietPeriod}}
	case name, ok := <-e.units:
		if !ok {
			return ErrDisconnected
		}
		if r.state.concerns(name) {
			effects = observeIn(quietPeriod)
		}
	case paths, ok := <-e.drift:
		if !ok {
			e.drift = nil
			r.state, effects = unwatched(r.state)
			break
		}
		r.state, effects = touched(r.state, paths, r.loop.Drift.Err())
	case r.state.Facts.Volume = <-e.volumes:
	case r.state.Facts.EtcdVolume = <-e.etcdVolumes:
	case disks := <-e.disks:
		r.state, effects = disksRead(r.state, disks)
	case <-e.jobs:
		effects = []Effect{SetAlarm{Which: jobAlarm, In: slowJob}}
	case <-e.linked:
		effects = []Effect{Show{}}
	case <-e.network:
		effects = []Effect{Show{}}
	case <-e.ownCluster:
		effects = []Effect{Show{}}
	case <-e.upgrades:
		effects = []Effect{Show{}}
	case s := <-e.shells:
		r.state, effects = shellOpened(r.state, s)
	case <-r.alarms.c():
		r.ring(ctx)
	}

	r.run(ctx, effects)
	return nil
}

// ring does what the alarms that have come are for.
func (r *runner) ring(ctx context.Context) {
	for _, which := range r.alarms.due() {
		state, effects := r.state.ring(which, r.loop.Host.Uptime())
		r.state = state
		r.run(ctx, effects)
	}
}
