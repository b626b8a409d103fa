package cluster

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/turns"
)

func TestDecideRelease(t *testing.T) {
	serial := func(w *world) { w.pending.serial = true }
	for _, tt := range []struct {
		name string
		edit func(w *world)
		step inplace.Step
		turn turn
		want releaseAction
		out  outcome
	}{
		{"a change", func(*world) {}, inplace.Nothing, turn{}, releaseNow, outcome{}},
		{
			"before the Secret is known",
			func(w *world) {
				w.pending = nil
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{},
		},
		{
			"a change that was released",
			func(w *world) {
				w.released = w.pending
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{},
		},

		{
			"before its delay has passed",
			func(w *world) {
				w.delay = time.Minute
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{wake: noon.Add(time.Minute)},
		},
		{
			"after its delay",
			func(w *world) {
				w.delay = time.Minute
				w.now = noon.Add(time.Minute)
			},
			inplace.Nothing,
			turn{},
			releaseNow,
			outcome{},
		},
		{
			"the first configuration, which has no delay",
			func(w *world) {
				w.delay = time.Minute
				w.released = nil
			},
			inplace.Nothing,
			turn{},
			releaseNow,
			outcome{},
		},
		{
			"the first after none, which has no delay",
			func(w *world) {
				w.delay = time.Minute
				w.released = &pendingConfig{}
			},
			inplace.Nothing,
			turn{},
			releaseNow,
			outcome{},
		},

		{
			"before the Secrets that it refers to are known",
			func(w *world) {
				w.pending.references = []osc.Reference{caReference}
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{wake: noon.Add(secretTimeout)},
		},
		{
			"once the API server has not answered for a Secret",
			func(w *world) {
				w.pending.references = []osc.Reference{caReference}
				w.now = noon.Add(secretTimeout)
			},
			inplace.Nothing,
			turn{},
			releaseNow,
			outcome{},
		},

		{
			"an update whose Node is not drained",
			func(*world) {},
			inplace.Await,
			turn{},
			releaseWait,
			outcome{},
		},
		{
			"an update whose Node is drained",
			func(*world) {},
			inplace.Configure,
			turn{},
			releaseNow,
			outcome{},
		},

		{"our turn", serial, inplace.Nothing, turn{state: turnOurs}, releaseNow, outcome{}},
		{"a free Lease", serial, inplace.Nothing, turn{state: turnFree}, releaseAcquire, outcome{}},
		{
			"another node's turn",
			serial,
			inplace.Nothing,
			turn{state: turnTaken, holder: "other", rest: time.Minute},
			releaseWait,
			outcome{wake: noon.Add(time.Minute), blocked: "turn of other"},
		},
		{
			"a Lease that was not seen yet",
			serial,
			inplace.Nothing,
			turn{state: turnUnknown},
			releaseWait,
			outcome{},
		},
		{
			"our turn, which has no delay",
			func(w *world) {
				w.pending.serial = true
				w.delay = time.Minute
			},
			inplace.Nothing,
			turn{state: turnOurs},
			releaseNow,
			outcome{},
		},
		{
			"before it is known whether there is a Node",
			func(w *world) {
				w.pending.serial = true
				w.node = nil
				w.nodeKnown = false
			},
			inplace.Nothing,
			turn{state: turnOurs},
			releaseWait,
			outcome{},
		},
		{
			"a new node, which takes no turn",
			func(w *world) {
				w.pending.serial = true
				w.node = nil
			},
			inplace.Nothing,
			turn{state: turnTaken},
			releaseNow,
			outcome{},
		},
		{
			"a restarted agent, whose Node has the configuration",
			func(w *world) {
				w.pending.serial = true
				w.released = nil
				w.setNode(annotated(appliedAnnotation, "new"))
			},
			inplace.Nothing,
			turn{state: turnTaken},
			releaseNow,
			outcome{},
		},
		{
			"a restarted agent in a pool with a policy, whatever its Node says",
			func(w *world) {
				w.pending.policy = &turns.Policy{}
				w.released = nil
				w.setNode(annotated(appliedAnnotation, "new"))
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{},
		},
		{
			"a restarted agent in a pool with a policy, whose Node was deleted and is back",
			func(w *world) {
				w.pending.policy = &turns.Policy{}
				w.released = nil
				w.status.Source = secretSource("pool")
				w.setNode(&core.Node{})
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{},
		},
		{
			"a new node in a pool with a policy, whose agent was restarted",
			func(w *world) {
				w.pending.policy = &turns.Policy{}
				w.released = nil
				w.setNode(&core.Node{})
			},
			inplace.Nothing,
			turn{},
			releaseNow,
			outcome{},
		},
		{
			"a restarted agent, before it knows what it runs",
			func(w *world) {
				w.pending.policy = &turns.Policy{}
				w.released = nil
				w.status.Phase = ""
				w.setNode(&core.Node{})
			},
			inplace.Nothing,
			turn{},
			releaseWait,
			outcome{},
		},
		{
			"a restarted agent, whose Node has another configuration",
			func(w *world) {
				w.pending.serial = true
				w.released = nil
			},
			inplace.Nothing,
			turn{state: turnFree},
			releaseAcquire,
			outcome{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.edit(&w)
			got, out := decideRelease(w, tt.step, tt.turn)
			if got != tt.want || out != tt.out {
				t.Errorf("%s %+v, want %s %+v", got, out, tt.want, tt.out)
			}
		})
	}
}
