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

// node is what the agent has of the node from its start to its end: open files,
// what changes the node and what watches it.
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
	data, etcdData    *manager.Manager

	// status is the state of the node before its loop begins.
	status status.Status
	// others are what runs beside the loop.
	others sync.WaitGroup
}

// life is the node under one name and one machine.yaml: what identify makes of it,
// until the agent ends to start again.
type life struct {
	*node
	reset *reset.Reset
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
	controlPlane *local.Follower
	first        newCluster
	// tokens are the tokens that machine.yaml has synced.
	tokens []cluster.Token
}

// warn shows operators an error that the node lives with, if there is one.
func (n *node) warn(err error) {
	if err != nil {
		n.status.Warnings = append(n.status.Warnings, hint.Line(err))
	}
}

// fail shows operators an error that keeps the node from what machine.yaml says, if
// there is one.
func (n *node) fail(err error) {
	if err != nil {
		n.status.Error = loop.Describe(err)
	}
}

// agent is the loop of the node until ctx ends. end ends it.
func (n *life) agent(
	ctx context.Context, end context.CancelCauseFunc, upgrades *service.Service,
) *loop.Loop {
	n.status.DigestsOnly = n.machine.DigestsOnly()
	pulled := decode.NewImages(durable.New(n.root, nil), decode.PreparedHosts, imagePolicy(n.machine),
		n.systemd.Start)
	a := &loop.Loop{
		Engine:      claimingEngine{n.engine, n.data, n.beforeChange},
		Units:       n.systemd,
		Jobs:        n.jobs,
		Source:      n.source,
		Decoder:     n.decoding().decoder(pulled, n.contents, n.Log),
		Host:        host{life: n, pulled: pulled, end: end},
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
	if upgrades != nil {
		a.Upgrades = upgrades
	}
	if n.controlPlane != nil {
		a.Decoder = recordDecoder{a.Decoder, n.controlPlane}
		a.OwnCluster = n.controlPlane
	}
	return a
}

// decoding returns what the documents of the node are decoded with.
func (n *life) decoding() decoding {
	return decoding{
		root:      n.root,
		image:     n.image,
		hostname:  n.status.Hostname,
		directory: content.Directory{Path: n.status.Contents},
		cluster:   n.cluster,
		tokens:    n.tokens,
	}
}

// Engine, Units and Queries are what the parts of this package share with the
// loop.
type (
	Engine  = loop.Engine
	Units   = loop.Units
	Queries = loop.Queries
)

// applyNetwork gives networkd the network of machine.yaml, or the recorded one
// if want is nil, and returns what watches it. A node is fresh if it runs no
// generation and no earlier run of the agent in this boot had a machine.yaml.
func (n *node) applyNetwork(ctx context.Context, want *network.Config) *watch.Network {
	observed := watch.New(n.root, n.systemd)

	_, runs, err := n.engine.Current()
	fresh := err == nil && !runs && saidBefore(n.root).Machine == ""
	if err := observed.Apply(ctx, n.records(), want, fresh); err != nil {
		n.Log.Error("network", zap.Error(err))
		n.warn(err)
	}
	observed.Observe()
	return observed
}
