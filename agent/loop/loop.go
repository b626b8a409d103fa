package loop

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// Loop is the agent's loop. Set the exported fields before [Loop.Run] and do not
// change them after.
type Loop struct {
	Engine Engine
	Units  Units
	// Jobs records what the Engine asks of systemd; nil for no record.
	Jobs *Jobs
	// Source is where the configuration comes from; nil if nowhere.
	Source source.Source
	// Decode returns what a document asks of this node.
	Decode func(ctx context.Context, doc source.Document) (config.Desired, error)
	// Reach returns an error unless what a probe names answers.
	Reach func(ctx context.Context, p config.Probe) error
	// Root is the root directory beneath which Drift watches; Drift may be nil.
	Root  string
	Drift Drifts
	// Contents receives when something a document refers to has changed; nil if
	// nothing can.
	Contents <-chan []string
	// Cluster is nil on a node that is part of none.
	Cluster Cluster
	// Volumes receives the state of the data volume; nil if there is none to watch.
	Volumes <-chan *status.Volume
	// Network is how the node is reached; nil if unknown.
	Network Watched[status.Network]
	// Upgrades is nil on a node that cannot be upgraded.
	Upgrades Watched[status.Upgrade]
	// Reset is the node's reset.
	Reset Resetter
	// End ends the agent, to be started again.
	End func(why error)
	// Requests are what operators and the cluster ask for; nil for none.
	Requests Requests
	// Queries ask how the node stands; nil for none.
	Queries Queries
	// Proven is called, beside the loop, when a change has proven itself; it may be
	// nil.
	Proven func(ctx context.Context)
	// DebugShells are terminals to open a root shell on.
	DebugShells []string
	// Status is what is known from the start: image, machine, and what is wrong with
	// machine.yaml.
	Status status.Status
	// Publish shows a status. news says that it is worth printing on the consoles.
	Publish func(s status.Status, news bool)
	// Ready is called once the loop is up, before the first apply, which may wait
	// for units that are ordered after the agent.
	Ready func() error
	// Steady is how long a unit has to be well to count as well again. Limit is how
	// long a boot without a change waits for units that are on their way.
	Steady, Limit time.Duration
	// Now returns the time since kernel start.
	Now func() time.Duration
	Log *zap.Logger

	// What follows belongs to the goroutine of Run.
	state  State
	alarms alarms
	// waiting gets the verdict on the change on trial; nil if no caller waits.
	waiting  *Request
	counters metrics.Counters
	// published is what was published, and where.
	published publisher

	// done receives from the step that runs beside the loop, others are that step
	// and all else that the loop has started.
	done   chan outcome
	others sync.WaitGroup
}

// outcome is a step that is done.
type outcome struct {
	step   Step
	result Result
}

// ErrDisconnected means that systemd no longer reports changes of units. The
// agent ends, to be started again.
var ErrDisconnected = errors.New("connection to systemd lost")

// Run runs the loop. It returns nil when ctx ends, after all it started has
// ended.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.others.Wait()
	defer cancel()

	l.done = make(chan outcome, 1)
	l.published = l.publisher()
	l.state = State{
		Facts:  l.Status,
		Faults: Faults{Desired: l.Status.Error},
		Due:    Due{Resume: true, Read: true},
	}
	events, err := l.listen(ctx)
	if err != nil {
		return err
	}
	if err := l.Ready(); err != nil {
		return err
	}

	for ctx.Err() == nil {
		if step := Next(l.state); step.Kind != Wait {
			l.begin(ctx, step)
			continue
		}
		if err := l.wait(ctx, events); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// begin does a step, or starts it beside the loop.
func (l *Loop) begin(ctx context.Context, step Step) {
	if step.Kind == Read && step.Request == nil && l.Source == nil {
		l.state.Due.Read = false
		l.show(ctx)
		return
	}

	before := l.state
	l.state = before.Begin(step, l.Now())
	l.announce(before, step)
	if l.state.Busy {
		beside := l.worker()
		l.others.Go(func() {
			l.done <- outcome{step: step, result: beside.perform(ctx, step)}
		})
		return
	}

	switch step.Kind {
	case Judge:
		l.observeUnits(ctx)
	case Idle:
		if !l.published.any {
			l.show(ctx)
		}
	case Confirm:
		l.confirm(ctx, step.Request)
	case BeginReset:
		l.beginReset(step.Request)
	case AnswerReset:
		step.Request.respond(resetOutcome(l.state))
	case EndReset:
		l.followSource(step.Request)
	}
}

// events are the places from which the loop hears, nil for a silent one.
type events struct {
	units           <-chan string
	source          <-chan struct{}
	contents, drift <-chan []string
	// Each receives when a part of the status that others observe may be another.
	linked, network, upgrades <-chan struct{}
	shells                    <-chan shell
}

// listen begins before the first observation, so that no change is missed.
func (l *Loop) listen(ctx context.Context) (*events, error) {
	units, err := l.Units.Changes(ctx)
	if err != nil {
		return nil, err
	}

	e := &events{
		units:    units,
		source:   l.watchSource(ctx),
		contents: l.Contents,
		shells:   openShells(ctx, l.Units, l.DebugShells, &l.others),
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
	if l.Upgrades != nil {
		e.upgrades = l.Upgrades.Changed()
	}
	return e, nil
}

func (l *Loop) watchSource(ctx context.Context) <-chan struct{} {
	if l.Source == nil {
		return nil
	}
	changed, err := l.Source.Watch(ctx)
	if err != nil {
		l.warn("watch the source", err)
		return nil
	}
	return changed
}

// errNoEvents is the end of a watch.
var errNoEvents = errors.New("no more events")

// wait takes in the next event.
func (l *Loop) wait(ctx context.Context, e *events) error {
	select {
	case <-ctx.Done():
	case done := <-l.done:
		l.merge(ctx, done.step, done.result)
	case r := <-l.admitted():
		l.handle(ctx, r)
	case q := <-l.Queries:
		q <- l.sample()
	case _, ok := <-e.source:
		if !ok && ctx.Err() == nil {
			l.warn("watch the source", errNoEvents)
		}
		if !ok {
			e.source = nil
		}
		l.state = l.state.reread() // The end of a watch may have hidden a change.
	case _, ok := <-e.contents:
		if !ok {
			e.contents = nil
			break
		}
		l.alarms.soon(readAlarm, quietPeriod)
	case name, ok := <-e.units:
		if !ok {
			return ErrDisconnected
		}
		if l.state.concerns(name) {
			l.alarms.soon(observeAlarm, quietPeriod)
		}
	case paths, ok := <-e.drift:
		if !ok {
			e.drift = nil
			l.warn("watch managed paths", errNoEvents)
			l.state = l.state.unguard()
			break
		}
		l.checkWatches()
		l.state = l.state.touch(paths)
	case l.state.Facts.Volume = <-l.Volumes:
	case <-e.linked:
		l.show(ctx)
	case <-e.network:
		l.show(ctx)
	case <-e.upgrades:
		l.show(ctx)
	case s := <-e.shells:
		l.shellOpened(s)
	case <-l.alarms.c():
		for _, which := range l.alarms.due() {
			l.ring(ctx, which)
		}
	}
	return nil
}

// ring does what an alarm is for.
func (l *Loop) ring(ctx context.Context, which alarm) {
	l.state = l.state.ring(which)
	switch which {
	case observeAlarm:
		l.observeUnits(ctx)
	case idleAlarm:
		l.others.Go(freeMemory)
	}
}

// freeMemory gives memory back to the kernel. Pools of the libraries let go of
// theirs at the second collection.
func freeMemory() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}
