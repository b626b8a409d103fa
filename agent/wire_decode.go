package agent

import (
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/osc"
)

// decoder returns the node's decoder, which watches what documents refer to.
// The cluster comes before a directory, and that before images.
func (n *node) decoder(pulled *decode.Images) decode.Decoder {
	d := decode.Decoder{
		Hostname: n.status.Hostname,
		Image:    n.image,
		Node:     n.root,
		Contents: pulled,
		Prepare:  pulled.Prepare,
		Cache:    &decode.Cache{},
	}

	files := pulled.WatchedFiles
	if dir := (content.Directory{Path: n.status.Contents}); dir.Path != "" {
		d.Contents = decode.Fallback{First: dir, Second: pulled}
		files = func(references []osc.Reference) []string {
			return append(dir.Files(references), pulled.WatchedFiles(references)...)
		}
	}

	if n.cluster != nil {
		d.Contents = decode.Fallback{First: n.cluster, Second: d.Contents}
		d.Tokens = n.tokens
	}

	d.Follow = func(references []osc.Reference) {
		if n.cluster != nil {
			n.cluster.Follow(references)
		}
		pulled.Follow(references)
		if err := n.contents.Set("/", files(references)); err != nil {
			n.Log.Warn("watch contents", zap.Error(err))
		}
	}
	return d
}
