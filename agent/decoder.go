package agent

import (
	"context"
	"os"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/cri"
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
	// Prepare is given the mirrors of the document, before images are looked for;
	// nil for nobody.
	Prepare func(mirrors []config.File) error
	// Image is the image's root directory, without anything mounted over it.
	Image *os.Root
}

// Decode reads an OperatingSystemConfig, with all that it refers to.
func (d Decoder) Decode(ctx context.Context, doc source.Document) (config.Desired, error) {
	asked, wrong := osc.Decode(doc.Name, doc.Text)
	env := osc.Env{Hostname: strings.ToLower(d.Hostname)}
	var err error
	if env.Containerd, err = cri.Observe(d.Image); err != nil {
		return config.Desired{}, err
	}
	// What is wrong with the document is said before anything is fetched for it,
	// and all of it at once.
	if err := osc.Check(wrong, asked, env); err != nil {
		return config.Desired{}, err
	}
	references := osc.References(asked, env)
	if d.Prepare != nil && len(references) > 0 {
		mirrors, err := osc.Mirrors(asked, env, comingHosts)
		if err == nil {
			err = d.Prepare(mirrors)
		}
		if err != nil {
			return config.Desired{}, err
		}
	}
	if d.Follow != nil {
		d.Follow(references)
	}
	if env.Contents, err = content.Resolve(ctx, d.Contents, references); err != nil {
		return config.Desired{}, err
	}
	return osc.Merge(asked, env)
}
