package loop

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// worker does the steps. It has no access to the state.
type worker struct {
	engine  Engine
	units   Units
	source  source.Source
	cluster Cluster
	reset   Resetter
	decoder Decoder
	host    Host
}

// perform does a step.
func (w worker) perform(ctx context.Context, step Step) (r Result) {
	switch step.Kind {
	case Resume:
		r.Resumed, r.Err = w.engine.Resume(ctx)
		r.Node = w.observe(step)
	case Conclude:
		_, r.Err = w.engine.Conclude(ctx, step.Verdict)
		r.Node = w.observe(step)
	case Repair:
		r.Paths, r.Err = w.engine.Repair(ctx, step.Paths, step.Content)
	case Read:
		r.Read, r.Err = w.read(ctx, step)
		if r.Err == nil {
			r.Holds, r.Err = w.holds(ctx, step, r.Read)
		}
	case Probe:
		r.Answers = slices.ContainsFunc(step.Probes, func(p config.Probe) bool {
			return w.host.Reach(ctx, p) == nil
		})
	case Start:
		r.Owed, r.Err = w.engine.Retry(ctx)
	case Prune:
		r.Err = w.engine.Tidy()
	case Apply:
		if w.cluster != nil {
			w.cluster.Prepare(ctx, step.Apply.Desired)
		}
		r.Generation, r.Err = w.engine.Apply(ctx, step.Apply)
		r.Node = w.observe(step)
	case Rollback:
		r.Generation, r.Err = w.engine.Rollback(ctx, step.Request.Rollback.Generation)
		r.Node = w.observe(step)
	case Reapply:
		r.Generation, r.Err = w.engine.Reapply(ctx, step.Request.Rollback.Generation)
		if !r.changedNothing() {
			r.Holds = w.holdForHeld(step, r.Generation.Digest)
		}
		r.Node = w.observe(step)
	case Confirm:
		r.Generation, r.Err = w.engine.Confirm()
		r.Node = w.observe(step)
	case Verify:
		asked := step.Request.Verify
		r.Verified, r.Err = w.engine.Verify(ctx, step.Content, asked.Repair, asked.Progress)
	case Restart:
		r.Err = w.restart(ctx, step.Request.Restart)
	case BeginReset:
		r.Err = w.reset.Begin()
	case EndReset:
		r.Err = w.reset.Forget()
	case RunReset:
		r.Err = w.reset.Run(ctx)
		r.Reset = w.reset.Status()
		r.ResetIsOver = w.reset.Superseded()
	}

	return r
}

func (w worker) restart(ctx context.Context, units []string) error {
	var errs []error
	for _, name := range units {
		errs = append(errs, w.units.Restart(ctx, name))
	}
	return errors.Join(errs...)
}

// read reads and decodes the source, or the document of a request.
func (w worker) read(ctx context.Context, step Step) (Reading, error) {
	if step.Document != nil {
		return w.decode(ctx, *step.Document, step.Have)
	}
	if w.source == nil {
		return Reading{}, hint.With(
			fault.With(errors.New("this node has no source of configuration"), fault.NoSource),
			"give a file",
		)
	}

	doc, err := w.source.Read(ctx)
	if err != nil {
		return Reading{}, err
	}
	return w.decode(ctx, doc, step.Have)
}

// decode returns what a document wants this node to be now. A file that waits
// for what it points at is left out until that answers, unless the node has the
// file already.
func (w worker) decode(
	ctx context.Context,
	doc source.Document,
	have generation.Manifest,
) (Reading, error) {
	reading := Reading{Name: doc.Name, Version: doc.Version}
	desired, err := w.decoder.Decode(ctx, doc)
	if err != nil {
		return reading, err
	}

	reading.Desired = desired
	reading.FullDigest = desired.Digest()
	for _, p := range desired.Probes {
		if has(have, desired.Files, p.Path) || w.host.Reach(ctx, p) == nil {
			continue
		}
		reading.Waits = append(reading.Waits, p)
		reading.Desired.Files = slices.DeleteFunc(
			slices.Clone(reading.Desired.Files),
			func(f config.File) bool { return f.Path == p.Path },
		)
	}
	return reading, nil
}

// observe reads which generation is current, which change is on trial and which
// units are owed.
func (w worker) observe(step Step) Observation {
	var o Observation
	problem := func(what string, err error) {
		if err != nil {
			o.Problems = append(o.Problems, Warn{What: what, Err: err})
		}
	}

	current, _, err := w.engine.Current()
	problem("read the current generation", err)
	o.Current = current

	pending, isPending, err := w.engine.Pending()
	problem("read the journal", err)
	if isPending {
		o.Pending = &pending
	}

	o.Owed, err = w.engine.Owed()
	problem("read what is owed", err)
	if step.Have.Name() == "" {
		o.TakenBack = w.host.TakenBack(current.Name())
	}
	return o
}

// has reports whether a generation has the file at that path with the same
// content as files.
func has(m generation.Manifest, files []config.File, name string) bool {
	return slices.ContainsFunc(m.Entries, func(e generation.Entry) bool {
		return e.Path == name && slices.ContainsFunc(files, func(f config.File) bool {
			return f.Path == name && f.Content.Digest == e.Digest
		})
	})
}
