package decode

import (
	"bytes"
	"os"
	"sync"

	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
)

// Cache is what a [Decoder] has read before: the containerd of the image, which
// does not change while the image runs, and the last document. A source is
// often read again although its text is the same, and the next document often
// differs in a few files only. The zero Cache is empty.
type Cache struct {
	mu         sync.Mutex
	containerd *cri.Base
	document   source.Document
	parser     document.Parser
	config     osc.OperatingSystemConfig
	err        error
}

// observe returns what the image says of its containerd.
func (c *Cache) observe(image *os.Root) (cri.Base, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.containerd == nil {
		base, err := cri.Observe(image)
		if err != nil {
			return cri.Base{}, err
		}
		c.containerd = &base
	}
	return *c.containerd, nil
}

// decode calls osc.Decode and osc.Check. Of env, only what stays the same for
// one node decides the outcome.
func (c *Cache) decode(doc source.Document, env osc.Env) (osc.OperatingSystemConfig, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	same := c.document.Text != nil && c.document.Name == doc.Name &&
		bytes.Equal(c.document.Text, doc.Text)
	if !same {
		parsed, err := osc.DecodeNext(&c.parser, doc.Name, doc.Text)
		c.config = parsed
		c.err = osc.Check(err, parsed, env)
		c.document = doc
	}
	return c.config, c.err
}
