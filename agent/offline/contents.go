package offline

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/osc"
)

// contents are what a plan knows of the contents of a node: all that is in its
// directory. The agent also pulls images and reads the cluster's Secrets, which
// a plan does not: it goes on without them, and unknown says what they are.
// contents implements [content.Provider].
type contents struct {
	// directory is nil on a node without one.
	directory content.Provider
	// cluster says that the agent has a cluster to read Secrets from.
	cluster bool
	// digestsOnly says that the agent refuses images which a tag names.
	digestsOnly bool
	unknown     []osc.Reference
}

// Secret implements [content.Provider].
func (c *contents) Secret(ctx context.Context, name, key string) (config.Content, error) {
	err := content.ErrNowhere
	if c.directory != nil {
		var found config.Content
		found, err = c.directory.Secret(ctx, name, key)
		if !errors.Is(err, content.ErrAbsent) {
			return found, err
		}
	}
	if !c.cluster {
		return config.Content{}, err
	}
	return c.unread(osc.Reference{Secret: name, Key: key}), nil
}

// Image implements [content.Provider].
func (c *contents) Image(ctx context.Context, ref, path string) (config.Content, error) {
	if c.directory != nil {
		found, err := c.directory.Image(ctx, ref, path)
		if !errors.Is(err, content.ErrAbsent) {
			return found, err
		}
	}
	if c.digestsOnly {
		if err := decode.CheckTag(ref); err != nil {
			return config.Content{}, err
		}
	}
	return c.unread(osc.Reference{Image: ref, Path: path}), nil
}

// unread returns a content that differs from any real one.
func (c *contents) unread(reference osc.Reference) config.Content {
	c.unknown = append(c.unknown, reference)
	return config.Text("not read: " + reference.String())
}

// notes says of each content that was not read what that means for the plan.
func (c *contents) notes() []config.Note {
	var notes []config.Note
	for _, reference := range c.unknown {
		notes = append(notes, config.Note{
			Reason: config.NoteWarning,
			Problem: reference.String() + " is read by the agent only: " +
				"in this plan its file counts as changed",
		})
	}
	return notes
}
