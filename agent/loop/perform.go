package loop

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
)

// perform does a step. It runs beside the loop and reads nothing of its state.
func (l *Loop) perform(ctx context.Context, step Step) (r Result) {
	switch step.Kind {
	case Resume:
		r.Resumed, r.Err = l.Engine.Resume(ctx)
	case Conclude:
		_, r.Err = l.Engine.Settle(ctx, step.Verdict)
	case Repair:
		r.Paths, r.Err = l.Engine.Repair(ctx, step.Paths, step.Content)
	case Read:
		r.Read, r.Err = l.read(ctx, step)
	case Probe:
		r.Answers = slices.ContainsFunc(step.Probes, func(p config.Probe) bool {
			return l.Reach(ctx, p) == nil
		})
	case Start:
		r.Owed, r.Err = l.Engine.Retry(ctx)
	case Prune:
		r.Err = l.Engine.Tidy()
	case Apply:
		if l.Cluster != nil {
			l.Cluster.Prepare(ctx, step.Apply.Desired)
		}
		r.Generation, r.Err = l.Engine.Apply(ctx, step.Apply)
	case Rollback:
		r.Generation, r.Err = l.Engine.Rollback(ctx, step.Request.Rollback.Generation)
	case Verify:
		r.Verified, r.Err = l.Engine.Verify(ctx, step.Content, step.Request.Verify.Repair)
	case Restart:
		r.Err = l.restart(ctx, step.Request.Restart)
	case RunReset:
		r.Err = l.Reset.Run(ctx)
		r.Reset, r.ResetIsOver = l.Reset.Status(), l.Reset.Superseded()
	}
	return r
}

func (l *Loop) restart(ctx context.Context, units []string) error {
	var errs []error
	for _, name := range units {
		errs = append(errs, l.Units.Restart(ctx, name))
	}
	return errors.Join(errs...)
}

// read reads and decodes the source, or the document of a request.
func (l *Loop) read(ctx context.Context, step Step) (Reading, error) {
	if step.Document != nil {
		return l.decode(ctx, *step.Document, step.Have)
	}
	if l.Source == nil {
		return Reading{}, errors.New("this node has no source of configuration\nhint: give a file")
	}

	doc, err := l.Source.Read(ctx)
	if err != nil {
		return Reading{}, err
	}
	return l.decode(ctx, doc, step.Have)
}

// decode returns what a document wants this node to be now. A file that waits for
// what it points at is left out until that answers, unless the node has the file
// already.
func (l *Loop) decode(
	ctx context.Context,
	doc source.Document,
	have generation.Manifest,
) (Reading, error) {
	reading := Reading{Name: doc.Name, Version: doc.Version}
	desired, err := l.Decode(ctx, doc)
	if err != nil {
		return reading, err
	}

	reading.Desired, reading.FullDigest = desired, desired.Digest()
	for _, p := range desired.Probes {
		if has(have, desired.Files, p.Path) || l.Reach(ctx, p) == nil {
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
