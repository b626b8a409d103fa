package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/initial"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint/fault"
)

// identify finds machine.yaml and configures the node accordingly. A wrong
// machine.yaml changes nothing; the status shows the error.
func (n *node) identify(ctx context.Context) {
	places := n.places()
	m, doc, err := n.findMachine(ctx, places)
	if n.Drives != nil {
		if err := n.Drives.ignored(doc); err != nil {
			n.warn(err)
		}
	}

	switch {
	case errors.Is(err, source.ErrNone):
		if n.Uptime() >= ownDriveTime && n.configured() && !n.reset.Active() {
			n.closeDrives()
		}
		n.applyNetwork(ctx, nil)
		n.Log.Info("no machine.yaml: the node keeps what it has")
	case err != nil:
		n.applyNetwork(ctx, nil)
		n.status.Error = loop.Describe(err)
	default:
		n.machine = m
		n.hasMachine = true
		n.applyNetwork(ctx, &m.Network)
		n.warn(applyProxy(ctx, proxySettings(m, n.root, n.planeStore()), n.records(), n.Setenv,
			func(ctx context.Context) error { return restartRuntime(ctx, n.systemd, n.Log) }))
		n.warn(openKernel(n.root, n.status.Kernel, m.Kernel))
		inReset := n.inReset(doc)
		if n.name() && !inReset && n.encrypt(ctx, places.Accepted) {
			doc = n.redact(doc)
			n.inReset(doc) // A later reset holds as long as the text is this one.
			n.accept(doc, m, places.Accepted)
			n.configure(ctx, places)
		}
	}

	if err := resolveName(n.root, n.status.Hostname); err != nil {
		n.Log.Warn("the node does not find its own name", zap.Error(err))
	}
	if !n.reset.Active() && !n.nameless {
		n.obeyRecord()
	}
}

// name gives the node the host name of machine.yaml, and reports whether there
// is one. Without the name that hostnameFrom asks for, the node is not
// configured and joins no cluster.
func (n *node) name() bool {
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

func (n *node) naming() naming {
	return naming{Env: n.Env, records: n.records(), machine: n.machine}
}

// encrypt has the state of a new node encrypted as machine.yaml says, and reports
// whether the node may be configured now. before is the record of the document that
// configured the node, nil for a new node.
func (n *node) encrypt(ctx context.Context, before *source.Accepted) bool {
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
	if err != nil {
		n.status.Error = loop.Describe(err)
	}
	return mayGoOn
}

// accept records the document with the content m, so that no other drive, and
// no document of a lower serial number counts from now on. before is the record
// so far.
func (n *node) accept(doc source.Document, m machine.Machine, before *source.Accepted) {
	now := source.Accept(doc, m.Trust.Keys)
	if doc.Kept {
		now = *before
	}
	if now.Text != "" && credentials.Joined(n.root, n.Now()) {
		now = now.Redacted(machine.Joined)
		now.Hostname = cmp.Or(now.Hostname, m.MachineName()) // From its files.
	}
	if n.Drives != nil {
		n.Drives.accepted = &now
	}
	if before != nil && *before == now {
		return
	}
	if err := n.keepAccepted(now); err != nil {
		n.warn(fmt.Errorf("record where machine.yaml is from: %w", err))
	}
}

func (n *node) keepAccepted(a source.Accepted) error {
	return n.records().WriteJSON(reset.AcceptedName, a, 0o600)
}

// inReset reports whether the node is in a reset, which another machine.yaml
// may end.
func (n *node) inReset(doc source.Document) bool {
	in, err := n.reset.Observe(doc.TextDigest())
	if err != nil {
		n.status.Error = loop.Describe(err)
	}
	return in
}

// configure takes from machine.yaml where the configuration and what it refers
// to come from, which data volume the node has, and which cluster it is part
// of.
func (n *node) configure(ctx context.Context, places source.Env) {
	n.status.Repository = n.machine.Upgrade.Repository
	if n.machine.Contents.Directory != nil {
		n.status.Contents = n.machine.Contents.Directory.Path
	}

	n.refuseSource()
	n.placeFiles()
	n.source = source.New(n.machine.Source, places)
	config, token, joins, err := clusterOf(n.machine.Source, n.root)
	if err != nil {
		n.status.Error = loop.Describe(err)
	}
	if err == nil || n.machine.DataVolume != (machine.Volume{}) {
		if err := n.data.Configure(ctx, n.machine.DataVolume, config.DataVolumeSize); err != nil {
			n.warn(err)
		}
	}
	n.initCluster(ctx)
	if err == nil && joins {
		n.join(config, token)
	}
}

// placeFiles writes the files that machine.yaml has for a machine which has not
// joined its cluster yet.
func (n *node) placeFiles() {
	wrote, err := initial.Place(
		durable.New(n.root, nil).WithImage(n.image.FS()),
		n.machine.Files,
		credentials.Joined(n.root, n.Now()),
	)
	if err != nil {
		n.warn(err)
	}
	if wrote {
		n.Log.Info("wrote the files of machine.yaml", zap.Int("files", len(n.machine.Files)))
	}
}

// firmwareConfig is where the kernel shows the files of QEMU's fw_cfg. systemd
// loads the module before it starts any unit.
const firmwareConfig = "sys/firmware/qemu_fw_cfg/by_name"

// places are where machine.yaml may be.
func (n *node) places() source.Env {
	cmdline, err := n.root.ReadFile("proc/cmdline")
	if err != nil {
		n.Log.Warn("read the kernel command line", zap.Error(err))
	}

	places := source.Env{
		Cmdline:        string(cmdline),
		Credentials:    n.Credentials,
		Given:          filepath.Join(n.Root, source.RunPath),
		FirmwareConfig: filepath.Join(n.Root, firmwareConfig),
	}
	places.Accepted = n.accepted()
	places.Configured = n.configured()
	if n.Drives != nil {
		places.Drives = n.Drives.list
		n.Drives.accepted = places.Accepted
	}
	if n.record.ESP != "" {
		places.ESP = source.Partition{Device: n.record.ESP}
	}
	return places
}

// accepted reads the record of the document that configured the node, nil for
// none. A damaged record counts as a record of an unknown drive, and has no
// keys: only the keys of the image count then.
func (n *node) accepted() *source.Accepted {
	var a source.Accepted
	found, err := durable.ReadJSON(n.root.FS(), reset.AcceptedName, &a)
	if err != nil {
		n.warn(fmt.Errorf("read where machine.yaml is from: %w", err))
		return &source.Accepted{}
	}
	if !found {
		return n.unrecorded()
	}
	if a == (source.Accepted{}) && !n.configured() {
		return nil // What it had without a machine.yaml was taken back.
	}
	return &a
}

// configured reports whether the node has been configured, by this version or one
// before, or may have been. A repair asks, too, which has no engine.
func (n *node) configured() bool {
	state, err := fs.Sub(n.root.FS(), strings.TrimPrefix(generation.Dir, "/"))
	if err != nil {
		return true
	}
	is, err := generation.Read(state).Configured()
	return is || err != nil
}

// ownDriveTime is how long after the start of the machine its own drive may
// appear, if an early version of Loam has not recorded which one that is.
const ownDriveTime = 2 * time.Minute

// unrecorded is the record of a node without one, nil for a new node. A node that
// is configured all the same comes from an early version of Loam: the drive that is
// there when the machine starts is its own, and no later one.
func (n *node) unrecorded() *source.Accepted {
	if n.Uptime() < ownDriveTime || !n.configured() {
		return nil
	}
	return &source.Accepted{}
}

// closeDrives records, unless there is a record, that the node has its
// configuration without a drive: none counts from now on.
func (n *node) closeDrives() {
	if _, err := n.root.Lstat(reset.AcceptedName); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := n.keepAccepted(source.Accepted{}); err != nil {
		n.Log.Error("record that no drive counts", zap.Error(err))
	}
}

// beforeChange takes in that a change follows. The first configuration of a node
// without machine.yaml closes its drives. The record comes first, so that no power
// cut leaves a configuration without it; without a configuration it counts as none.
// A node that is configured already may still wait for its own drive.
func (n *node) beforeChange() {
	if !n.hasMachine && !n.configured() {
		n.closeDrives()
	}
}

// findMachine reads machine.yaml. It returns source.ErrNone if the node has
// none. A node with trusted keys, or whose document was on a drive, has a copy of
// what it accepted, and goes on with that when the present one is missing or does
// not count.
func (n *node) findMachine(
	ctx context.Context,
	places source.Env,
) (machine.Machine, source.Document, error) {
	doc, err := source.Find(ctx, places)
	m, err := n.decodeMachine(doc, err)
	if err == nil {
		return m, doc, nil
	}

	kept, keptErr := places.Accepted.Document()
	before, keptErr := n.decodeMachine(kept, keptErr)
	if keptErr != nil {
		return m, doc, err
	}

	if !errors.Is(err, source.ErrNone) {
		n.warn(notTaken(err))
	}
	return before, kept, nil
}

// notTaken is the warning of a node that goes on with its copy of machine.yaml.
// It has one mistake of a document, and a code, for which a warning has no
// field.
func notTaken(err error) error {
	code := fault.Of(err)
	if wrong, is := errors.AsType[document.Errors](err); is && len(wrong) > 0 {
		err = wrong[0]
	}

	err = fmt.Errorf("the node goes on with the machine.yaml that it accepted before: %w", err)
	if code.IsSpecific() {
		err = fmt.Errorf("%s: %w", code, err)
	}
	return err
}

// decodeMachine reads the machine.yaml in a document, unless err says why there
// is none.
func (n *node) decodeMachine(doc source.Document, err error) (machine.Machine, error) {
	if err != nil {
		return machine.Machine{}, err
	}

	n.status.Machine = doc.Name
	if doc.SignedSerial > 0 {
		n.status.Machine += fmt.Sprintf(", serial %d", doc.SignedSerial)
	}
	if doc.Kept {
		n.status.Machine += ", kept copy"
	}

	m, err := machine.Decode(doc.Name, doc.Text)
	if err == nil && m.Hostname == "" && m.HostnameFrom == "" {
		m.Hostname, err = givenName(doc, m)
	}
	return m, err
}

// givenName is the host name of a machine whose machine.yaml sets none: the
// name on the drive with machine.yaml, or else the name that Gardener has for
// the machine; "" if both are absent.
func givenName(doc source.Document, m machine.Machine) (string, error) {
	given := cmp.Or(doc.Hostname, m.MachineName())
	if given == "" {
		return "", nil
	}

	name, err := hostname.Parse(given)
	if err != nil {
		return "", document.Errors{{
			File: doc.Name,
			Path: "hostname",
			Problem: fmt.Sprintf("the machine is called %s, which is not a host name: %s",
				document.Quote(given), err),
			Hint: "write hostname: it goes before the names that a drive or Gardener gives",
		}}
	}
	return name, nil
}
