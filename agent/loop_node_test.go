package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/test/units"
)

// loopNode is a node in memory for the loop: a source with one document, an
// engine that applies it, and a systemd without units. It records what the loop
// asked for. Methods that it does not have panic.
type loopNode struct {
	loop.Engine
	units   chan string
	current generation.Manifest
	shown   []status.Status
	news    []status.Phase
	// did has "read" and "apply" in order.
	did                      []string
	applied, resumed, tidied bool
}

// agent is the loop of a node that p asks.
func (w *loopNode) agent(p operator, end func(why error)) *loop.Loop {
	a := &loop.Loop{
		Engine:   w,
		Units:    &units.Fake{News: w.units},
		Decoder:  w,
		Host:     testHost{loopNode: w, start: time.Now(), end: end},
		Reset:    p.reset,
		Requests: p.Requests,
		Status:   status.Status{Reset: p.reset.Status()},
		Log:      zap.NewNop(),
	}
	if a.Status.Reset == nil {
		a.Source = w
	}
	return a
}

// Decode implements [loop.Decoder]: every document asks for the same file.
func (w *loopNode) Decode(context.Context, source.Document) (config.Desired, error) {
	return config.Desired{
		Files: []config.File{{Path: "/etc/a", Content: config.Text("one")}},
	}, nil
}

// testHost implements [loop.Host].
type testHost struct {
	*loopNode
	start time.Time
	end   func(why error)
}

func (testHost) Ready() error                              { return nil }
func (testHost) Alive() error                              { return nil }
func (testHost) Reach(context.Context, config.Probe) error { return nil }
func (testHost) FreeMemory()                               {}
func (testHost) Proven(context.Context)                    {}
func (h testHost) End(why error)                           { h.end(why) }

func (h testHost) Uptime() time.Duration { return time.Since(h.start) + time.Second }

func (testHost) DoubtClock() *status.WrongClock { return nil }

func (testHost) Limits([]status.Limit) []limits.Usage { return nil }

func (testHost) TakenBack(string) *status.TakenBack { return nil }

func (testHost) Threads() limits.Usage { return limits.Usage{} }

func (testHost) Storage() []storage.Usage { return nil }

func (h testHost) Publish(s status.Status, news bool) error {
	h.shown = append(h.shown, s)
	if news {
		h.news = append(h.news, s.Phase)
	}
	return nil
}

func (w *loopNode) last() status.Status { return w.shown[len(w.shown)-1] }

func (w *loopNode) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

func (w *loopNode) Read(context.Context) (source.Document, error) {
	w.did = append(w.did, "read")
	return source.Document{Name: "test.yaml"}, nil
}

func (w *loopNode) Resume(context.Context) (apply.Resumed, error) {
	w.resumed = true
	return apply.Resumed{}, nil
}

func (w *loopNode) Current() (generation.Manifest, bool, error) {
	return w.current, w.applied, nil
}

func (w *loopNode) Apply(_ context.Context, r apply.Request) (generation.Manifest, error) {
	w.did = append(w.did, "apply")
	w.applied = true
	w.current = generation.Manifest{Number: 1, Digest: r.Desired.Digest(), Source: r.Source}
	return w.current, nil
}

func (w *loopNode) Pending() (apply.Pending, bool, error) { return apply.Pending{}, false, nil }

func (w *loopNode) Owed() ([]string, error) { return nil, nil }

func (w *loopNode) Held(string) (apply.Held, bool, error) { return apply.Held{}, false, nil }

func (w *loopNode) Tidy() error {
	w.tidied = true
	return nil
}
