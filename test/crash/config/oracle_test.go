package config_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
)

// oracle knows what a node with a configuration looks like: as a new node
// does to which nothing else was ever applied.
type oracle struct {
	t     testing.TB
	image *os.Root
	mu    sync.Mutex
	known map[string]looks
}

// looks is what programs see on a node, and what its units run with.
type looks struct{ files, units map[string]string }

// nothing is what a node has before its first configuration.
var nothing = config.Desired{}

func (o *oracle) of(d config.Desired) (looks, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if l, ok := o.known[d.Digest()]; ok {
		return l, nil
	}

	fresh := newCrashNode(o.t, o.image)
	if d.Digest() != nothing.Digest() {
		if err := applyGood(fresh.executor(), d); err != nil {
			return looks{}, fmt.Errorf("apply to a new node: %w", err)
		}
	}

	files, err := fresh.view()
	if err != nil {
		return looks{}, err
	}

	for _, f := range d.Files {
		got := fileAs(fresh.root.Name(), f.Path)
		if !strings.HasPrefix(got, fmt.Sprintf("file %s ", f.Mode)) {
			return looks{}, fmt.Errorf("apply to a new node: %s %s", f.Path, got)
		}
	}

	o.known[d.Digest()] = looks{files, fresh.systemd.keep().running()}
	return o.known[d.Digest()], nil
}

// is reports how the node differs from a node with configuration d.
func (o *oracle) is(n *crashNode, d config.Desired) error {
	want, err := o.of(d)
	if err != nil {
		return err
	}
	files, err := n.view()
	if err != nil {
		return err
	}
	if diff := differ(want.files, files) + differ(want.units, n.systemd.keep().running()); diff != "" {
		return fmt.Errorf("the node is a mix:\n%s", diff)
	}
	return nil
}

// check starts the agent after a crash. It returns an error unless the node is
// wholly one of allowed and then applies next.
func (o *oracle) check(n *crashNode, allowed []config.Desired, next config.Desired) error {
	ctx := context.Background()
	e := n.executor()
	if _, err := e.Resume(ctx); err != nil {
		return fmt.Errorf("resume: %w", err)
	}

	d, err := n.has(allowed)
	if err != nil {
		return err
	}
	if err := o.is(n, d); err != nil {
		return err
	}
	if err := n.consistent(); err != nil {
		return err
	}
	if err := n.atRest(); err != nil {
		return fmt.Errorf("after a resume: %w", err)
	}

	v, err := e.Verify(ctx, nil, false, nil)
	if err != nil || len(v.Bad) > 0 {
		return fmt.Errorf("verify: %+v %w", v.Bad, err)
	}
	if err := applyGood(e, next); err != nil {
		return err
	}
	if err := o.is(n, next); err != nil {
		return fmt.Errorf("after the next apply: %w", err)
	}
	if err := n.garbage(); err != nil {
		return fmt.Errorf("after the next apply: %w", err)
	}

	return n.atRest()
}

// has is which of allowed the node has as its current configuration.
func (n *crashNode) has(allowed []config.Desired) (config.Desired, error) {
	m, ok, err := n.executor().Current()
	if err != nil {
		return config.Desired{}, err
	}
	var names []string
	for _, d := range allowed {
		if (ok && d.Digest() == m.Digest) || (!ok && d.Digest() == nothing.Digest()) {
			return d, nil
		}
		names = append(names, fmt.Sprintf("%.12s", d.Digest()))
	}
	return config.Desired{}, fmt.Errorf("the node has %q, not one of %v", m.Name(), names)
}

// consistent compares the journal with the generations.
func (n *crashNode) consistent() error {
	e := n.executor()
	m, _, err := e.Current()
	if err != nil {
		return err
	}

	p, ok, err := e.Pending()
	switch {
	case err != nil:
		return err
	case ok && p.To != m.Name():
		return fmt.Errorf("the journal is about %s, and the node has %s", p.To, m.Name())
	case ok && p.Back != "":
		return fmt.Errorf("the way back to %s is not concluded", p.To)
	}
	return nil
}

// atRest makes sure that another start finds nothing to do.
func (n *crashNode) atRest() error {
	var steps []string
	jobs, hook := n.systemd.jobs, n.hook
	defer func() { n.hook = hook }()
	n.hook = func(string) durable.Hook {
		return func(s durable.Step) error { steps = append(steps, s.String()); return nil }
	}
	r, err := n.executor().Resume(context.Background())
	if err != nil || len(steps) > 0 || n.systemd.jobs != jobs {
		return fmt.Errorf("another resume did %q and %d jobs: %+v %w",
			steps, n.systemd.jobs-jobs, r, err)
	}
	return nil
}

func request(d config.Desired) apply.Request { return apply.Request{Desired: d, Source: "test"} }

// applyGood applies d and finds it good.
func applyGood(e *apply.Executor, d config.Desired) error {
	if _, err := e.Apply(context.Background(), request(d)); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return concludeGood(e)
}

// concludeGood gives the change that is watched the verdict that it is good.
func concludeGood(e *apply.Executor) error {
	v, err := e.Judge(context.Background())
	if err != nil || v.Word != health.Good {
		return fmt.Errorf("judge: %+v %w", v, err)
	}
	if _, err := e.Conclude(context.Background(), v); err != nil {
		return fmt.Errorf("conclude: %w", err)
	}
	return nil
}
