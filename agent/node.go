package agent

import (
	"context"
	"os"
	"sync"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd/watch"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/upgrade/service"
	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/agent/wear"
	"github.com/loam-os/loam/hint"
)

// node is the node during one run of the agent: its open files, its identity,
// and what runs there beside the loop.
type node struct {
	Env
	// root is the root directory of the node. image is the root directory of
	// the image, without anything mounted over it.
	root, image *os.Root
	systemd     *unit.Systemd
	// record is what /init left.
	record boot.Record
	// engine changes the node, and jobs are what it asks of systemd.
	engine *apply.Executor
	jobs   *loop.Jobs
	// spare keeps room for what is recorded.
	spare *durable.Spare
	// files keeps room for the files of the status.
	files limits.Spare
	// managed watches the managed paths, contents what a document refers to.
	managed, contents *drift.Watcher
	requests          loop.Requests
	queries           Queries
	reset             *reset.Reset
	data, etcdData    *manager.Manager

	// status is the state of the node before its loop begins.
	status status.Status
	// machine is machine.yaml, zero if it is absent or wrong, which hasMachine
	// tells.
	machine    machine.Machine
	hasMachine bool
	// nameless says that the name which it asks for is still to come.
	nameless bool
	network  *watch.Network
	// source is nil if the node has no configuration to follow, cluster if it
	// is part of none.
	source  source.Source
	cluster *cluster.Cluster
	// controlPlane is nil if the node has no cluster of its own, and makes none.
	// first is the one that it is to make.
	controlPlane *local.Node
	first        newCluster
	// tokens are the tokens that machine.yaml has synced.
	tokens []cluster.Token
	// upgrades is nil where the node cannot be upgraded.
	upgrades *service.Service

	others sync.WaitGroup
}

// warn shows operators an error that the node lives with, if there is one.
func (n *node) warn(err error) {
	if err == nil {
		return
	}
	n.status.Warnings = append(n.status.Warnings, hint.Line(err))
}

// agent is the loop of the node until ctx ends. end ends it.
func (n *node) agent(ctx context.Context, end context.CancelCauseFunc) *loop.Loop {
	n.status.DigestsOnly = n.machine.DigestsOnly()
	pulled := decode.NewImages(durable.New(n.root, nil), decode.PreparedHosts, n.imagePolicy(),
		n.systemd.Start)
	a := &loop.Loop{
		Engine:      claimingEngine{n.engine, n.data, n.beforeChange},
		Units:       n.systemd,
		Jobs:        n.jobs,
		Source:      n.source,
		Decoder:     n.decoder(pulled),
		Host:        host{node: n, pulled: pulled, end: end},
		Root:        n.Root,
		Drift:       n.managed,
		Contents:    n.contents.Events(),
		Volumes:     n.data.Changed(),
		EtcdVolumes: n.etcdData.Changed(),
		Disks:       wear.Watch(ctx, n.root.FS(), n.status.Disks, n.Log),
		Reset:       n.reset,
		Requests:    n.requests,
		Queries:     n.queries,
		DebugShells: n.machine.DebugShell,
		Status:      n.status,
		Steady:      steady,
		Limit:       limit,
		Log:         n.Log,
	}

	// A nil pointer in an interface is not nil.
	if n.network != nil {
		a.Network = n.network
	}
	if n.cluster != nil {
		a.Cluster = n.cluster
	}
	if n.upgrades != nil {
		a.Upgrades = n.upgrades
	}
	if n.controlPlane != nil {
		a.Decoder = recordDecoder{a.Decoder, n.controlPlane}
		a.OwnCluster = n.controlPlane
	}
	return a
}

// Engine, Units and Queries are what the parts of this package share with the
// loop.
type (
	Engine  = loop.Engine
	Units   = loop.Units
	Queries = loop.Queries
)

// imagePolicy returns what machine.yaml says of container images.
func (n *node) imagePolicy() decode.ImagePolicy {
	return decode.ImagePolicy{
		DigestsOnly: n.machine.DigestsOnly(),
		Keys:        n.machine.Images.Keys,
	}
}

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

// applyNetwork gives networkd the network of machine.yaml, or the recorded one
// if want is nil. A node is fresh if it runs no generation and no earlier run
// of the agent in this boot had a machine.yaml.
func (n *node) applyNetwork(ctx context.Context, want *network.Config) {
	n.network = watch.New(n.root, n.systemd)

	_, runs, err := n.engine.Current()
	fresh := err == nil && !runs && saidBefore(n.root).Machine == ""
	if err := n.network.Apply(ctx, n.records(), want, fresh); err != nil {
		n.Log.Error("network", zap.Error(err))
		n.warn(err)
	}
	n.network.Observe()
}
