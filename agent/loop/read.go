package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Read the source, or the document of a request.
var Read = &Kind{
	name:    "read",
	begin:   beginRead,
	perform: performRead,
	after:   afterRead,
}

// Reading is a configuration as the source or a caller gave it.
type Reading struct {
	Name    string
	Version string
	// Desired lacks the files that wait for a probe.
	Desired config.Desired
	// FullDigest is the digest of all of it, Desired's without the files that
	// wait.
	FullDigest string
	// Waits are its probes that do not answer yet.
	Waits []config.Probe
}

// digest returns the digest of Desired.
func (r Reading) digest() string {
	if len(r.Waits) == 0 && r.FullDigest != "" {
		return r.FullDigest // Making it takes time.
	}
	return r.Desired.Digest()
}

// beginRead leaves the source due for a caller.
func beginRead(s State, step Step, _ time.Duration) (State, []Effect) {
	s.Due.Read = s.Due.Read && step.Request != nil
	return s, nil
}

func performRead(ctx context.Context, w worker, step Step) (r Result) {
	r.Read, r.Err = w.read(ctx, step)
	if r.Err == nil {
		r.Holds, r.Err = w.holds(ctx, step, r.Read)
	}
	return r
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
		return Reading{Name: doc.Name, Version: doc.Version}, err
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

// has reports whether a generation has the file at that path with the same
// content as files.
func has(m generation.Manifest, files []config.File, name string) bool {
	return slices.ContainsFunc(m.Entries, func(e generation.Entry) bool {
		return e.Path == name && slices.ContainsFunc(files, func(f config.File) bool {
			return f.Path == name && f.Content.Digest == e.Digest
		})
	})
}
