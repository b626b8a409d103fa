// Package decode makes of a document what it asks of one node.
package decode

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
)

// Decoder makes of a document what it asks of one node.
type Decoder struct {
	// Hostname is the node's.
	Hostname string
	// Contents has what documents refer to; nil if the node has no such place.
	Contents content.Provider
	// Follow is told what the document refers to, before that is looked for; nil
	// for nobody.
	Follow func(references []osc.Reference)
	// Prepare is given the mirrors of the document, and the authorities that it has
	// the machine trust, before images are looked for; nil for nobody.
	Prepare func(mirrors, authorities []config.File) error
	// Tokens are synced whatever the document says.
	Tokens []cluster.Token
	// Image is the image's root directory, without anything mounted over it.
	Image *os.Root
	// Node is the node's root directory, which tells whether it has a data volume;
	// nil for a node that has none.
	Node *os.Root
	// Seen is what was read before; nil to read everything each time.
	Seen *Seen
}

// Seen is what a Decoder has read: what the image says of its containerd, which
// does not change while it runs, and the last document. A source is often read
// again although its text is the same, as something else of it has changed.
type Seen struct {
	mu       sync.Mutex
	image    *cri.Base
	document source.Document
	asked    osc.OperatingSystemConfig
	wrong    error
}

// containerd is what the image says of it.
func (s *Seen) containerd(image *os.Root) (cri.Base, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.image == nil {
		base, err := cri.Observe(image)
		if err != nil {
			return cri.Base{}, err
		}
		s.image = &base
	}
	return *s.image, nil
}

// decode is osc.Decode, and osc.Check of what it says. Nothing else of env decides
// about that but what stays the same.
func (s *Seen) decode(doc source.Document, env osc.Env) (osc.OperatingSystemConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.document.Text == nil || s.document.Name != doc.Name || !bytes.Equal(s.document.Text, doc.Text) {
		s.asked, s.wrong = osc.Decode(doc.Name, doc.Text)
		s.wrong = osc.Check(s.wrong, s.asked, env)
		s.document = doc
	}
	return s.asked, s.wrong
}

// Decode reads an OperatingSystemConfig, with all that it refers to. What is wrong
// with it and the cluster's own agent would take all the same is among the Notes
// of a document that a cluster made, and an error in any other.
func (d Decoder) Decode(ctx context.Context, doc source.Document) (config.Desired, error) {
	seen := d.Seen
	if seen == nil {
		seen = &Seen{}
	}
	containerd, err := seen.containerd(d.Image)
	if err != nil {
		return config.Desired{}, err
	}
	env := osc.Env{Hostname: strings.ToLower(d.Hostname), Containerd: containerd}

	// What is wrong with the document is said before anything is fetched for it,
	// and all of it at once.
	asked, wrong := seen.decode(doc, env)
	warnings, refusal := document.Lenient(wrong)
	if !doc.FromCluster {
		warnings, refusal = nil, wrong
	}
	if refusal != nil {
		return config.Desired{}, refusal
	}
	references := osc.References(asked, env)
	if d.Prepare != nil && len(references) > 0 {
		mirrors, err := osc.Mirrors(asked, env, PreparedHosts)
		if err != nil {
			return config.Desired{}, err
		}
		authorities, err := osc.Authorities(asked, env)
		if err != nil {
			return config.Desired{}, err
		}
		if err := d.Prepare(mirrors, authorities); err != nil {
			return config.Desired{}, err
		}
	}
	if d.Follow != nil {
		d.Follow(references)
	}
	if env.Contents, err = content.Resolve(ctx, d.Contents, references); err != nil {
		return config.Desired{}, err
	}

	desired, err := osc.MergeChecked(asked, env)
	if err != nil {
		return config.Desired{}, err
	}
	more, err := cluster.Settle(&desired, d.Tokens)
	if err != nil {
		return config.Desired{}, err
	}
	warnings = append(warnings, more...)
	desired.Notes = append(desired.Notes, notesOf(warnings)...)
	if d.Node == nil {
		return desired, nil
	}
	return provideVolume(d.Node.FS(), desired)
}

// notesOf are warnings of a document as notes.
func notesOf(warnings document.Errors) []config.Note {
	var notes []config.Note
	for _, w := range warnings {
		notes = append(notes, config.Note{
			Reason:   config.NoteWarning,
			Document: w.File,
			Line:     w.Line,
			Path:     w.Path,
			Problem:  w.Problem,
			Hint:     w.Hint,
		})
	}
	return notes
}
