package decode

import (
	"context"
	"os"
	"strings"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
)

// Decoder decodes the documents of one node.
type Decoder struct {
	// Hostname is the node's.
	Hostname string
	// Contents resolves references; nil if the node has no place for contents.
	Contents content.Provider
	// Follow is called with the references of a document before they are
	// resolved. It may be nil.
	Follow func(references []osc.Reference)
	// Prepare is called with a document that refers to contents, before they are
	// resolved. It may be nil.
	Prepare func(ctx context.Context, parsed osc.OperatingSystemConfig, env osc.Env) error
	// Tokens are synced in addition to the document's.
	Tokens []cluster.Token
	// Image is the image's root directory, without anything mounted over it.
	Image *os.Root
	// Node is the node's root directory, where the claim of a data volume is
	// recorded; nil for a node without one.
	Node *os.Root
	// Cache is what was read before; nil to read everything each time.
	Cache *Cache
}

// Decode reads an OperatingSystemConfig and everything that it refers to. A
// problem that the cluster's own agent would accept is one of the Notes if a
// cluster sent the document, and an error in any other document.
func (d Decoder) Decode(ctx context.Context, doc source.Document) (config.Desired, error) {
	cache := d.Cache
	if cache == nil {
		cache = &Cache{}
	}
	containerd, err := cache.observe(d.Image)
	if err != nil {
		return config.Desired{}, err
	}
	env := osc.Env{Hostname: strings.ToLower(d.Hostname), Containerd: containerd}

	// All problems of the document come at once, before anything is fetched for
	// it.
	parsed, problems := cache.decode(doc, env)
	warnings, refusal := document.Lenient(problems)
	if !doc.FromCluster {
		warnings = nil
		refusal = problems
	}
	if refusal != nil {
		return config.Desired{}, refusal
	}

	env.Contents, err = d.resolve(ctx, parsed, env)
	if err != nil {
		return config.Desired{}, err
	}
	desired, err := osc.MergeChecked(parsed, env)
	if err != nil {
		return config.Desired{}, err
	}

	more, err := cluster.ReserveTokenPaths(&desired, d.Tokens)
	if err != nil {
		return config.Desired{}, err
	}
	warnings = append(warnings, more...)
	desired.Notes = append(desired.Notes, notes(warnings)...)

	if d.Node == nil {
		return desired, nil
	}
	return withoutVolumeMount(d.Node.FS(), desired)
}

// resolve returns the content of each reference of a document.
func (d Decoder) resolve(
	ctx context.Context,
	parsed osc.OperatingSystemConfig,
	env osc.Env,
) (map[osc.Reference]config.Content, error) {
	references := osc.References(parsed, env)
	if d.Prepare != nil && len(references) > 0 {
		if err := d.Prepare(ctx, parsed, env); err != nil {
			return nil, err
		}
	}

	if d.Follow != nil {
		d.Follow(references)
	}
	return content.Resolve(ctx, d.Contents, references)
}

// notes returns the warnings of a document as notes.
func notes(warnings document.Errors) []config.Note {
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
