package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// read takes up what the source says now. Without a document the node stays as
// it is, and so it does if the document is wrong.
func (l *loop) read(ctx context.Context) {
	if l.Source == nil {
		l.show(ctx)
		return
	}
	have := l.current
	l.start(func() func() {
		d, err := l.fetch(ctx, have)
		return func() {
			if ctx.Err() == nil {
				l.obey(ctx, d, err)
			}
		}
	})
}

// wanted is a configuration as a source or a person gave it.
type wanted struct {
	name    string
	version string
	desired config.Desired
	// whole is the digest of all of it, desired what does not wait.
	whole string
	// waits are those of its probes that do not answer yet.
	waits []config.Probe
}

// fetch reads the source.
func (l *loop) fetch(ctx context.Context, have generation.Manifest) (wanted, error) {
	doc, err := l.Source.Read(ctx)
	if err != nil {
		return wanted{}, err
	}
	return l.decode(ctx, doc, have)
}

// decode makes of a document what this node is to be now: a file that waits for
// what it points at to answer is left out until it does, unless the node has it
// already.
func (l *loop) decode(ctx context.Context, doc source.Document, have generation.Manifest) (wanted, error) {
	d := wanted{name: doc.Name, version: doc.Version}
	desired, err := l.Decode(ctx, doc)
	if err != nil {
		return d, err
	}
	d.desired, d.whole = desired, desired.Digest()
	for _, p := range desired.Probes {
		if has(have, desired.Files, p.Path) || l.Reach(ctx, p) == nil {
			continue
		}
		d.waits = append(d.waits, p)
		d.desired.Files = slices.DeleteFunc(slices.Clone(d.desired.Files), func(f config.File) bool { return f.Path == p.Path })
	}
	return d, nil
}

// has reports whether generation m has the file of that path as it is in files.
func has(m generation.Manifest, files []config.File, name string) bool {
	return slices.ContainsFunc(m.Entries, func(e generation.Entry) bool {
		return e.Path == name && slices.ContainsFunc(files, func(f config.File) bool { return f.Path == name && f.Content.Digest == e.Digest })
	})
}

// obey makes the node what the source says.
func (l *loop) obey(ctx context.Context, d wanted, err error) {
	l.accept()
	l.status.Missing, l.status.Offered, l.status.Notes = "", d.version, d.desired.Notes
	switch {
	case errors.Is(err, source.ErrAbsent):
		l.Log.Info("no configuration at the source: the node keeps what it has", zap.Error(err))
		l.status.Missing = err.Error()
	case err != nil:
		l.refuse(refusalOf(err), Describe(err))
		if l.shown.Error == nil || l.shown.Error.Problem != l.asked.Problem {
			l.Log.Error("the configuration cannot be had", zap.Error(err))
		}
		if !errors.As(err, new(document.Errors)) {
			l.readAt.soon(readAgain) // What it refers to may come.
		}
	default:
		l.take(d)
		if l.applies() {
			l.apply(ctx, apply.Request{Desired: d.desired, Source: d.name}, nil)
			return
		}
	}
	l.show(ctx)
}

// accept ends a refusal.
func (l *loop) accept() { l.asked, l.refusal = nil, "" }

// refuse notes why the node does not do what it was asked.
func (l *loop) refuse(kind status.Refusal, why *status.Error) { l.asked, l.refusal = why, kind }

// refusalOf is the kind of an error in reading a document.
func refusalOf(err error) status.Refusal {
	if errors.As(err, new(document.Errors)) {
		return status.Invalid
	}
	return status.Unavailable
}

// take notes what a document gave.
func (l *loop) take(d wanted) {
	if l.whole != "" && l.whole != d.whole {
		l.releaseSource()
	}
	l.given, l.whole, l.version = d.desired.Digest(), d.whole, d.version
	l.content = map[string]config.Content{}
	for _, f := range d.desired.Files {
		l.content[f.Content.Digest] = f.Content
	}
	for _, u := range d.desired.Units {
		for _, text := range u.Texts() {
			l.content[config.Text(text).Digest] = config.Text(text)
		}
	}
	if l.status.Waits = d.waits; len(d.waits) > 0 {
		l.reachAt.soon(reachAgain)
	}
	l.status.Update = d.desired.Update
	l.tellNotes(d.desired.Notes)
}

// tellNotes tells people what they should know of the document, once.
func (l *loop) tellNotes(notes []config.Note) {
	if slices.Equal(notes, l.noted) {
		return
	}
	l.noted = notes

	byReason := map[string][]config.Note{}
	for _, n := range notes {
		l.Log.Warn("the document is followed, but not to the letter", zap.String("reason", n.Reason), zap.Stringer("note", n), zap.String("hint", n.Hint))
		byReason[n.Reason] = append(byReason[n.Reason], n)
	}
	if l.Cluster == nil {
		return
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		l.Cluster.Event(true, reason, shorten(summary(byReason[reason])))
	}
}

// summary is the first of some notes, and how many there are besides.
func summary(notes []config.Note) string {
	text := notes[0].String()
	if more := len(notes) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: loam status)", more)
	}
	return text
}

// releaseSource lets what the source said before count again, should it say so
// once more, if nothing but a person's wish held it.
func (l *loop) releaseSource() {
	held, is, err := l.Engine.Held(l.whole)
	if err == nil && is && held.Operator {
		err = l.Engine.Release(l.whole)
	}
	if err != nil {
		l.warn("release the source's configuration", err)
	}
}

// reach tries again what did not answer.
func (l *loop) reach(ctx context.Context) {
	waits := l.status.Waits
	l.start(func() func() {
		answers := slices.ContainsFunc(waits, func(p config.Probe) bool { return l.Reach(ctx, p) == nil })
		return func() {
			l.due.read = l.due.read || answers
			if !answers && len(l.status.Waits) > 0 {
				l.reachAt.soon(reachAgain)
			}
		}
	})
}

// applies reports whether what the source gave is to be applied: not what the
// node is already, nor what is held, nor while a person tries something else.
func (l *loop) applies() bool {
	held, is, err := l.held()
	l.status.Held = nil
	switch {
	case err != nil:
		l.refuse(status.NotApplied, Describe(err))
		return false
	case l.given == l.current.Digest && l.current.OSVersion == l.status.ImageVersion:
		return false // Another system's units may be enabled otherwise.
	case is && held.Operator:
		l.status.Held = &status.Held{Digest: held.Digest, Why: held.Why}
		return false
	case is:
		l.refuse(status.Reverted, &status.Error{
			Problem: fmt.Sprintf("configuration %s was taken back: %s", held.Digest, held.Why),
			Hint:    "change it, or try it again with `loam apply`",
		})
		return false
	}
	return !l.isPending || l.pending.Try == nil
}

// held says whether what the source gave is held: all of it, or without what
// waits.
func (l *loop) held() (apply.Held, bool, error) {
	held, is, err := l.Engine.Held(l.whole)
	if is || err != nil {
		return held, is, err
	}
	return l.Engine.Held(l.given)
}

// apply applies a configuration that is not the current one. A unit that did
// not come up, or not yet, is a fact about the node, which the verdict follows
// up, and no error here. wish is who asked for it, nil for the source.
func (l *loop) apply(ctx context.Context, r apply.Request, wish *Wish) {
	l.Log.Info("applying", zap.String("digest", r.Desired.Digest()), zap.String("source", r.Source))
	l.accept()
	l.failed, l.starts.wait = nil, 0
	l.startAt.clear()
	l.status.AppliedAt, l.status.Change, l.changing = 0, nil, true
	l.publish(status.Applying)
	if l.isPending {
		l.counters.Applied(string(apply.Replaced), l.Now()-l.began)
	}
	l.began = l.Now()
	l.start(func() func() {
		if l.Cluster != nil {
			l.Cluster.Prepare(ctx, r.Desired)
		}
		m, err := l.Engine.Apply(ctx, r)
		return func() {
			if ctx.Err() != nil {
				return
			}
			l.changing = false
			if err != nil && m.Name() == "" && !errors.Is(err, apply.ErrUnfinished) {
				l.Log.Error("apply", zap.Error(err))
				l.refused(ctx, err, wish)
				return
			}
			if wish != nil {
				l.status.Waits = nil
			}
			l.await(wish)
			l.changed(ctx, err)
		}
	})
}

// refused is an apply that has changed nothing. What the kernel refused may go
// another time; what is wrong with the configuration stays so until it changes.
func (l *loop) refused(ctx context.Context, err error, wish *Wish) {
	wish.fail(err)
	if l.Cluster != nil {
		l.Cluster.Prepare(ctx, config.Desired{})
	}
	switch {
	case wish == nil:
		l.refuse(status.NotApplied, Describe(err))
	case wish.undo != nil:
		wish.undo()
	}
	if wish != nil || apply.Transient(err) {
		l.retryAt.soon(retry)
	}
	l.observe()
	l.look(ctx)
}
