package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
)

// identify finds machine.yaml and takes from it who the node is, and which cluster
// it is part of, nil for none, and where its systems come from. A machine.yaml that is wrong leaves the node as it
// is and is the error that the status shows.
func (env Env) identify(ctx context.Context, a *Agent, root, imageRoot *os.Root, contents Drift, record boot.Record, wishes Wishes, reset *Reset, data *dataVolume) (joined *cluster.Cluster, from machine.Upgrade) {
	pulled := newImages(durable.New(root, nil), a.Units.Start)
	decoder := Decoder{Hostname: a.Status.Hostname, Image: imageRoot, Contents: pulled, Prepare: pulled.prepare}
	watched := func([]osc.Reference) []string { return nil }
	decoder.Follow = func(references []osc.Reference) {
		pulled.follow(references)
		if err := contents.Set("/", append(watched(references), pulled.files(references)...)); err != nil {
			env.Log.Warn("watch contents", zap.Error(err))
		}
	}
	a.Proven = func(ctx context.Context) { pulled.release(ctx, env.Log) }
	defer func() { a.Decode = decoder.Decode }()
	places := env.places(root, record)
	m, text, err := findMachine(ctx, a, places)
	if err != nil {
		a.Network = env.settleNetwork(ctx, a, root, nil)
	}
	if errors.Is(err, source.ErrNone) {
		env.Log.Info("no machine.yaml: the node keeps what it has")
		return nil, from
	}
	if err != nil {
		a.Status.Error = describe(err)
		return nil, from
	}
	a.Network = env.settleNetwork(ctx, a, root, &m.Network)
	a.DebugShells, from = m.DebugShell, m.Upgrade
	if !env.name(a, root, m) {
		return nil, from
	}
	decoder.Hostname = a.Status.Hostname
	in, err := reset.meets(text, m)
	if err != nil {
		a.Status.Error = describe(err)
	}
	if in {
		return nil, from
	}
	if m.Contents.Directory != nil {
		dir := content.Directory{Path: m.Contents.Directory.Path}
		a.Status.Contents, decoder.Contents, watched = dir.Path, either{dir, pulled}, dir.Files
	}
	a.Source = source.New(m.Source, places)
	config, token, ok, err := clusterOf(m.Source, root)
	if err != nil {
		a.Status.Error = describe(err)
	}
	if err == nil || m.DataVolume != (machine.DataVolume{}) {
		if err := data.claims(ctx, m.DataVolume, config.DataVolumeSize); err != nil {
			a.Status.Warnings = append(a.Status.Warnings, err.Error())
		}
	}
	if err != nil || !ok {
		return nil, from
	}
	reset.config = config
	return env.join(a, &decoder, m.Source, config, token, root, wishes), from
}

// firmwareConfig is where the kernel shows the files of QEMU's fw_cfg. systemd loads the module before it starts any unit.
const firmwareConfig = "sys/firmware/qemu_fw_cfg/by_name"

// places are where machine.yaml may be.
func (env Env) places(root *os.Root, record boot.Record) source.Env {
	cmdline, err := root.ReadFile("proc/cmdline")
	if err != nil {
		env.Log.Warn("read the kernel command line", zap.Error(err))
	}
	places := source.Env{Cmdline: string(cmdline), Credentials: env.Credentials, Given: filepath.Join(env.Root, source.RunPath), FirmwareConfig: filepath.Join(env.Root, firmwareConfig)}
	if env.Drives != nil {
		places.Drives = env.Drives.list
	}
	if record.ESP != "" {
		places.ESP = source.Partition{Device: record.ESP}
	}
	return places
}

// findMachine reads machine.yaml, and has its text too; source.ErrNone if there is
// none.
func findMachine(ctx context.Context, a *Agent, places source.Env) (machine.Machine, []byte, error) {
	doc, err := source.Find(ctx, places)
	if err != nil {
		return machine.Machine{}, nil, err
	}
	a.Status.Machine = doc.Name
	m, err := machine.Decode(doc.Name, doc.Text)
	if err == nil && m.Hostname == "" && m.HostnameFrom == "" && doc.Hostname != "" {
		if m.Hostname = doc.Hostname; !hostname.Valid(m.Hostname) {
			err = fmt.Errorf("host name %q beside %s: it is none\nhint: hostname in machine.yaml goes first", doc.Hostname, doc.Name)
		}
	}
	return m, doc.Text, err
}

// setHostname names the node now, and at its next start before all else.
func (env Env) setHostname(root *os.Root, name string) error {
	if err := env.SetHostname(name); err != nil {
		return fmt.Errorf("set the host name to %s: %w", name, err)
	}
	if _, err := durable.New(root, nil).WriteFile(boot.HostnameFile, []byte(name+"\n"), 0o644); err != nil {
		return fmt.Errorf("keep the host name: %w", err)
	}
	return nil
}
