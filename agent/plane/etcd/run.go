package etcd

import (
	"context"
	"time"
)

// lookInterval is the time between two looks. etcd has no watch for alarms, and a
// minute is short beside what it takes to fill a quota.
const lookInterval = time.Minute

// maxSteps is more than the steps of one look: compact, defragment and disarm.
const maxSteps = 4

// Event is what the log should say.
type Event struct {
	// State is the zero State if etcd is away.
	State     State
	Condition Condition

	// Step is the step that begins, or has failed with Err.
	Step Step

	// Err is what is wrong, with a hint if an operator can do something, nil if
	// all is well.
	Err error
}

// Maintenance looks at etcd and does what [Next] decides. One goroutine uses it.
type Maintenance struct {
	// Connect returns a client with the present certificates. It is called for
	// each look, which closes the client.
	Connect func() (Client, error)

	Now func() time.Time

	// Report is called when the condition changes, and for each step. An etcd
	// that is away at first is no change.
	Report func(Event)

	last   Last
	fsyncs Histogram
	// condition is the condition that was reported last, "" before the first.
	condition Condition
}

// Run looks at etcd now and then once a minute, until ctx ends.
func (m *Maintenance) Run(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()

	for {
		m.Look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks at etcd once, and does all that can be done now.
func (m *Maintenance) Look(ctx context.Context) {
	client, err := m.Connect()
	if err != nil {
		m.reportAway(ctx, err)
		return
	}
	defer client.Close()

	for range maxSteps {
		s, err := client.Observe(ctx, m.fsyncs)
		if err != nil {
			m.reportAway(ctx, err)
			return
		}

		step := Next(s, m.Now(), m.last)
		if step.Action == Nothing {
			m.fsyncs = s.Fsyncs
			m.report(Event{State: s, Condition: s.Condition(), Err: s.Problem()})
			return
		}
		if !m.apply(ctx, client, s, step) {
			return
		}
	}
}

// apply reports whether the step has succeeded.
func (m *Maintenance) apply(ctx context.Context, client Client, s State, step Step) bool {
	m.Report(Event{State: s, Condition: s.Condition(), Step: step})

	err := client.Apply(ctx, step)
	m.last = m.last.After(step, m.Now(), err)
	if err != nil && ctx.Err() == nil {
		m.Report(Event{State: s, Condition: s.Condition(), Step: step, Err: err})
	}
	return err == nil
}

// reportAway reports that etcd does not answer, unless the node is the reason.
func (m *Maintenance) reportAway(ctx context.Context, err error) {
	if ctx.Err() == nil && m.condition != "" {
		m.report(Event{Condition: Away, Err: err})
	}
}

// report reports a condition that differs from the last one.
func (m *Maintenance) report(e Event) {
	if e.Condition != m.condition {
		m.condition = e.Condition
		m.Report(e)
	}
}
