package agent

import (
	"context"
	"os"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

// decoding is what the documents of a node are decoded with.
type decoding struct {
	root, image *os.Root
	hostname    string
	// directory has contents; it is empty if machine.yaml names none.
	directory content.Directory
	// cluster is nil if the node is part of none; tokens are its tokens.
	cluster *cluster.Cluster
	tokens  []cluster.Token
}

// imagePolicy returns what machine.yaml says of container images.
func imagePolicy(m machine.Machine) decode.ImagePolicy {
	return decode.ImagePolicy{
		DigestsOnly: m.DigestsOnly(),
		Keys:        m.Images.Keys,
	}
}

// decoder returns the decoder of the node, which watches what documents refer to.
// The cluster comes before a directory, and that before images.
func (d decoding) decoder(
	pulled *decode.Images, contents *drift.Watcher, log *zap.Logger,
) decode.Decoder {
	decoder := decode.Decoder{
		Hostname: d.hostname,
		Image:    d.image,
		Node:     d.root,
		Contents: pulled,
		Prepare:  pulled.Prepare,
		Cache:    &decode.Cache{},
	}

	files := pulled.WatchedFiles
	if d.directory.Path != "" {
		decoder.Contents = decode.Fallback{First: d.directory, Second: pulled}
		files = func(references []osc.Reference) []string {
			return append(d.directory.Files(references), pulled.WatchedFiles(references)...)
		}
	}

	if d.cluster != nil {
		decoder.Contents = decode.Fallback{First: d.cluster, Second: decoder.Contents}
		decoder.Tokens = d.tokens
	}

	decoder.Follow = func(references []osc.Reference) {
		if d.cluster != nil {
			d.cluster.Follow(references)
		}
		pulled.Follow(references)
		if err := contents.Set("/", files(references)); err != nil {
			log.Warn("watch contents", zap.Error(err))
		}
	}
	return decoder
}

// pending returns the decoder for a configuration that the cluster has for the node
// later. It pulls the images of the configuration, which the node needs next, and
// starts nothing.
func (d decoding) pending(policy decode.ImagePolicy) decode.Decoder {
	pulled := decode.NewImages(durable.New(d.root, nil), decode.PendingHosts, policy,
		func(context.Context, string) error { return errContainerdDown })
	decoder := decode.Decoder{
		Hostname: d.hostname,
		Image:    d.image,
		Node:     d.root,
		Contents: pulled,
		Follow:   pulled.Follow,
		Prepare:  pulled.Prepare,
		Cache:    &decode.Cache{},
		Tokens:   d.tokens,
	}
	if d.directory.Path != "" {
		decoder.Contents = decode.Fallback{First: d.directory, Second: decoder.Contents}
	}
	return decoder
}
