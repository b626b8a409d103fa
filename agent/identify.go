package agent

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/identity"
	"github.com/loam-os/loam/agent/initial"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/volume"
)

// identify finds machine.yaml and configures the node accordingly. A wrong
// machine.yaml changes nothing; the status shows the error.
func (n *life) identify(ctx context.Context) {
	store := n.identity()
	found, err := store.Find(ctx)
	n.status.Machine = found.Name
	for _, warning := range found.Warnings {
		n.warn(warning)
	}

	switch {
	case errors.Is(err, source.ErrNone):
		if store.UntilOwnDrive() == 0 && store.Configured() && !n.reset.Active() {
			store.CloseDrives()
		}
		n.network = n.applyNetwork(ctx, nil)
		n.Log.Info("no machine.yaml: the node keeps what it has")
	case err != nil:
		n.network = n.applyNetwork(ctx, nil)
		n.fail(err)
	default:
		m := found.Machine
		n.machine = m
		n.hasMachine = true
		n.network = n.applyNetwork(ctx, &m.Network)
		n.warn(applyProxy(ctx, proxySettings(m, n.root, n.planeStore()), n.records(), n.Setenv,
			func(ctx context.Context) error { return restartRuntime(ctx, n.systemd, n.Log) }))
		n.warn(openKernel(n.root, n.status.Kernel, m.Kernel))
		inReset := n.inReset(found.Document)
		if n.name() && !inReset && n.encrypt(ctx, found.Places.Accepted) {
			doc, err := store.Redact(found.Document)
			n.warn(err)
			n.inReset(doc) // A later reset holds as long as the text is this one.
			n.warn(store.Accept(doc, m, found.Places.Accepted))
			n.configure(ctx, found.Places)
		}
	}

	if err := resolveName(n.root, n.status.Hostname); err != nil {
		n.Log.Warn("the node does not find its own name", zap.Error(err))
	}
	if !n.reset.Active() && !n.nameless {
		n.followRecord()
	}
}

// identity returns what finds machine.yaml. A repair has it, too, before there is
// an engine.
func (n *node) identity() identity.Store {
	return identity.Store{
		Records:     n.records(),
		Path:        n.Root,
		Credentials: n.Credentials,
		ESP:         n.record.ESP,
		Drives:      n.Drives,
		Uptime:      n.Uptime,
		Now:         n.Now,
		Log:         n.Log,
	}
}

// beforeChange takes in that a change of the configuration follows.
func (n *life) beforeChange() {
	if !n.hasMachine {
		n.identity().BeforeChange()
	}
}

// name gives the node the host name of machine.yaml, and reports whether there
// is one. Without the name that hostnameFrom asks for, the node is not
// configured and joins no cluster.
func (n *life) name() bool {
	name, err := n.naming().apply()
	if name != "" {
		n.status.Hostname = name
	}
	n.warn(err)

	n.nameless = name == "" && n.machine.HostnameFrom != ""
	if n.nameless {
		n.warn(fmt.Errorf(
			"the node has no name and waits for one: hostnameFrom of machine.yaml is %s",
			n.machine.HostnameFrom))
	}
	return !n.nameless
}

// naming returns what names the node, by its machine.yaml.
func (n *life) naming() naming {
	return naming{Env: n.Env, records: n.records(), machine: n.machine}
}

// encrypt has the state of a new node encrypted as machine.yaml says, and reports
// whether the node may be configured now. before is the record of the document that
// configured the node, nil for a new node.
func (n *life) encrypt(ctx context.Context, before *source.Accepted) bool {
	mode := crypt.Mode(n.machine.Encrypt())
	isNew := before == nil && !credentials.Joined(n.root, n.Now())
	mayGoOn, warning, err := encrypt(mode, n.record, isNew, func() error {
		n.Log.Info("restarting to encrypt the state", zap.String("with", string(mode)))
		if err := requestEncryption(n.records(), mode); err != nil {
			return err
		}
		return n.systemd.Reboot(ctx)
	})
	n.warn(warning)
	n.fail(err)
	return mayGoOn
}

// inReset reports whether the node is in a reset, which another machine.yaml
// may end.
func (n *life) inReset(doc source.Document) bool {
	in, err := n.reset.Observe(doc.TextDigest())
	n.fail(err)
	return in
}

// configure takes from machine.yaml where the configuration and what it refers
// to come from, which data volume the node has, and which cluster it is part
// of.
func (n *life) configure(ctx context.Context, places source.Env) {
	n.status.Repository = n.machine.Upgrade.Repository
	if n.machine.Contents.Directory != nil {
		n.status.Contents = n.machine.Contents.Directory.Path
	}

	if err := checkSource(n.planeStore(), n.machine.Source); err != nil {
		n.machine.Source = machine.Source{}
		n.fail(err)
	}
	n.placeFiles(n.machine)
	n.source = source.New(n.machine.Source, places)
	config, token, joins, err := clusterOf(n.machine.Source, n.root)
	n.fail(err)
	if err == nil || n.machine.DataVolume != (machine.Volume{}) {
		n.warn(n.data.Configure(ctx, n.machine.DataVolume, config.DataVolumeSize))
	}
	n.initCluster(ctx)
	if err == nil && joins {
		n.join(config, token)
	}
}

// initCluster has the node become the first of the cluster of machine.yaml, unless
// it is already. The claims of all volumes must be recorded except that of etcd.
func (n *life) initCluster(ctx context.Context) {
	wanted := n.machine.Cluster
	disk := etcdDisk{Env: n.Env, volume: n.etcdData, store: n.planeStore()}
	if err := disk.claim(ctx, wanted.EtcdVolume); err != nil {
		n.fail(document.At(volume.Etcd.Field, err))
		return
	}
	if wanted.Init == nil {
		return
	}

	first, warning, err := disk.newCluster(ctx, *wanted.Init, wanted.AllowSlowDisk)
	n.first = first
	n.warn(warning)
	if !errors.Is(err, errNoVolume) { // It is reported by itself.
		n.fail(err)
	}
}

// followRecord makes the cluster of the node its source, if it has one.
func (n *life) followRecord() {
	controlPlane, warning, err := n.ownCluster().open(n.first)
	n.warn(warning)
	n.fail(err)
	if controlPlane == nil {
		return
	}

	n.controlPlane = controlPlane
	n.source = controlPlane
	n.status.OwnCluster = controlPlane.State()
}

// ownCluster returns what opens the cluster of the node.
func (n *life) ownCluster() ownCluster {
	return ownCluster{
		Env:      n.Env,
		root:     n.root,
		image:    n.image,
		store:    n.planeStore(),
		engine:   n.engine,
		releases: n.machine.Upgrade,
		hostname: n.status.Hostname,
		run:      n.others.Go,
	}
}

// placeFiles writes the files that machine.yaml has for a machine which has not
// joined its cluster yet.
func (n *node) placeFiles(m machine.Machine) {
	wrote, err := initial.Place(
		durable.New(n.root, nil).WithImage(n.image.FS()),
		m.Files,
		credentials.Joined(n.root, n.Now()),
	)
	n.warn(err)
	if wrote {
		n.Log.Info("wrote the files of machine.yaml", zap.Int("files", len(m.Files)))
	}
}
