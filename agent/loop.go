package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// loop is what Run knows of the node.
type loop struct {
	*Agent
	status status.Status
	// shown is what was published last; false before the first time.
	shown     status.Status
	published bool
	current   generation.Manifest
	// asked is what is wrong with what the node was asked to be, or with
	// applying it; done what systemd could not do of the current generation.
	asked, done *status.Error
	// unfinished is what keeps the node between two generations, or from being
	// its current one.
	unfinished *status.Error
}

// watch begins to watch the source, before the first read, so that no change
// is missed.
func (l *loop) watch(ctx context.Context) <-chan struct{} {
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

// resume completes an apply that was cut off and finds out what the node is. A
// unit that did not come up is no reason to try again.
func (l *loop) resume(ctx context.Context) {
	resumed, err := l.Engine.Resume(ctx)
	l.unfinished = nil
	switch {
	case ctx.Err() != nil:
	case err != nil && resumed.Finished != "" && !errors.Is(err, apply.ErrUnfinished):
		l.done = describe(err)
	case err != nil:
		l.Log.Error("resume", zap.Error(err))
		l.unfinished = describe(err)
	case resumed.Finished != "":
		l.Log.Info("finished an apply that was cut off", zap.String("generation", resumed.Finished))
	case len(resumed.Repaired) > 0:
		l.Log.Warn("repaired what had changed", zap.Strings("paths", resumed.Repaired))
	}
	l.observe()
}

// observe finds out which generation is current.
func (l *loop) observe() {
	var err error
	l.current, _, err = l.Engine.Current()
	if err != nil {
		l.warn("read the current generation", err)
	}
}

// retryAt starts the time until the next try, if something is left to complete.
func (l *loop) retryAt() <-chan time.Time {
	if l.unfinished == nil {
		return nil
	}
	return time.After(retry)
}

// read completes what is left to complete and takes up what the source says
// now.
func (l *loop) read(ctx context.Context) {
	if l.unfinished != nil {
		l.resume(ctx)
	}
	l.follow(ctx)
}

func (l *loop) follow(ctx context.Context) {
	if l.Source != nil {
		l.asked = describe(l.obey(ctx))
	}
	l.look(ctx)
}

// obey makes the node what the source says. Without a document it stays as
// it is, and so it does if the document is wrong.
func (l *loop) obey(ctx context.Context) error {
	doc, err := l.Source.Read(ctx)
	if errors.Is(err, source.ErrAbsent) {
		l.Log.Info("no configuration at the source: the node keeps what it has", zap.Error(err))
		return nil
	}
	if err != nil {
		return err
	}
	desired, err := l.Decode(doc)
	if err != nil {
		return err
	}
	if desired.Digest() == l.current.Digest {
		return nil
	}
	return l.apply(ctx, desired, doc.Name)
}

// apply applies a configuration that is not the current one. A unit that did
// not come up, or not yet, is a fact about the node, which look follows up, and
// no error here.
func (l *loop) apply(ctx context.Context, desired config.Desired, source string) error {
	l.Log.Info("applying", zap.String("digest", desired.Digest()), zap.String("source", source))
	l.asked, l.done = nil, nil
	l.status.AppliedAt = 0
	l.publish(status.Applying)
	m, err := l.Engine.Apply(ctx, desired, source)
	l.observe()
	switch {
	case errors.Is(err, apply.ErrUnfinished):
		l.Log.Error("apply", zap.Error(err))
		l.unfinished = describe(err)
		return nil
	case err != nil && m.Name() == "":
		l.Log.Error("apply", zap.Error(err))
		return err
	}
	l.unfinished = nil
	if err != nil {
		l.Log.Warn("units did not come up", zap.String("generation", m.Name()), zap.Error(err))
		l.done = describe(err)
		return nil
	}
	l.Log.Info("applied", zap.String("generation", m.Name()))
	return nil
}

// concerns reports whether a change of the unit name matters.
func (l *loop) concerns(name string) bool {
	return slices.ContainsFunc(l.current.Units, func(u generation.Unit) bool { return u.Name == name })
}

// warn keeps a fact that a person should see, once.
func (l *loop) warn(what string, err error) {
	l.Log.Warn(what, zap.Error(err))
	text := what + ": " + err.Error()
	if !slices.Contains(l.status.Warnings, text) {
		l.status.Warnings = append(slices.Clone(l.status.Warnings), text)
	}
}
