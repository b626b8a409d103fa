package live

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/install"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
)

// Source is where the system comes from.
type Source interface {
	// Machine returns the text of machine.yaml, nil if the source has none for
	// this node.
	Machine(ctx context.Context) ([]byte, error)

	// Packed opens the disk image, which is packed.
	Packed(ctx context.Context) (io.ReadCloser, error)

	// System writes the root file system and the hash tree into files in dir,
	// and returns where they are.
	System(ctx context.Context, dir string) (root, tree boot.File, err error)

	// Installed reports to the source that the disk has the system.
	Installed(ctx context.Context) error

	// Disk is the device node of the disk that the source is on, "" if none.
	Disk() string

	// String names the source for display.
	String() string

	// Close leaves the machine as it was.
	Close() error
}

// node is a node while it starts.
type node struct {
	*boot.Init
	source Source
	params Params
	// text is machine.yaml as the source has sent it, document what of it
	// counts, and machine its content.
	text     []byte
	document source.Document
	machine  machine.Machine
	warnings []string
}

// Run installs the node, or runs it from memory. It returns only on error.
func Run(ctx context.Context, i *boot.Init, p Params, s Source) error {
	n := &node{Init: i, source: s, params: p}
	if err := n.identify(ctx); err != nil {
		return err
	}

	i.Done("find the system")
	if err := i.MountMemory(); err != nil {
		return err
	}

	if n.machine.Install != nil {
		err := n.install(ctx)
		if err == nil {
			return n.restart(ctx)
		}
		n.warn(fmt.Errorf("the system was not installed: %w", err))
	}

	return n.run(ctx)
}

// identify reads machine.yaml and stores it for the agent, which verifies it
// again and reports its errors.
func (n *node) identify(ctx context.Context) error {
	text, err := n.source.Machine(ctx)
	if err != nil || text == nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(source.RunPath), 0o755); err != nil {
		return fmt.Errorf("machine.yaml: %w", err)
	}
	if err := os.WriteFile(source.RunPath, text, 0o600); err != nil {
		return fmt.Errorf("machine.yaml: %w", err)
	}

	document, err := n.params.verify(text, n.source.String())
	if err != nil {
		n.Say("%v", err)
		return nil
	}
	if err := n.params.authenticate(document); err != nil {
		n.Say("%s is not authenticated: %v", document.Name, err)
	}

	m, err := machine.Decode("machine.yaml", document.Text)
	if err != nil {
		n.Say("%v", err)
		return nil
	}

	n.text = text
	n.document = document
	n.machine = m
	return nil
}

// warn shows a warning on the console now, and records it for the agent.
func (n *node) warn(err error) {
	n.Say("%v", err)
	n.warnings = append(n.warnings, hint.Text(err))
}

// run makes the system in memory the root file system.
func (n *node) run(ctx context.Context) error {
	root, tree, err := n.source.System(ctx, boot.MemoryDir)
	if err != nil {
		return err
	}

	n.Alive()
	n.Done("get the system")

	d, err := n.FromMemory(n.params.RootHash, root, tree)
	if err != nil {
		return err
	}

	n.Done("verify the system")
	if n.machine.StateDisk() != nil {
		d.State, err = n.state()
		if err != nil {
			n.warn(fmt.Errorf("the state of the node is in memory, and lost with a restart: %w",
				err))
		}
	}

	if err := n.source.Close(); err != nil {
		n.warn(err)
	}

	d.Warnings = append(d.Warnings, n.warnings...)
	return n.Run(d)
}

const (
	// diskTimeout is how long a claimed disk may take to appear.
	diskTimeout = 60 * time.Second
	// quietPeriod is how long no device must have appeared before a claim that
	// could mean several disks is decided.
	quietPeriod = 5 * time.Second
)

// awaitDisk repeats decide until it returns a disk, or refuses one, or until no
// more disks appear.
func (n *node) awaitDisk(c volume.Claim, decide func() error) error {
	deadline := time.Now().Add(diskTimeout)
	for c.Serial == "" && n.Await(earlier(time.Now().Add(quietPeriod), deadline)) {
	}
	for {
		err := decide()
		missing := (*volume.Refusal)(nil)
		if !errors.As(err, &missing) || missing.Matches() || !n.Await(deadline) {
			return err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// disks gives access to the disks of this machine.
func disks() volume.Machine { return volume.Machine{Root: os.DirFS("/"), Open: volume.OpenToLook} }

// install puts the system on the claimed disk, if it is not there already.
func (n *node) install(ctx context.Context) error {
	if n.params.Disk == "" {
		return hint.With(errors.New("the kernel command line has no loam.disk="),
			"take it from manifest.json of the build, field liveCmdline")
	}

	if err := n.params.mayWipe(*n.machine.Install, n.document); err != nil {
		return err
	}

	claim := install.Claim{Claim: n.machine.Install.Disk.Claim(), Wipe: n.machine.Install.Wipe}
	var choice install.Choice
	err := n.awaitDisk(claim.Claim, func() error {
		facts, err := install.Observe(disks(), n.source.Disk())
		if err == nil {
			choice, err = install.Decide(facts, claim)
		}
		return err
	})
	if err != nil {
		return err
	}

	if !choice.Installed {
		if err := n.write(ctx, choice, claim); err != nil {
			return err
		}
	}

	return n.startNext(choice.Disk)
}

// write unpacks the disk image into memory and writes it to the disk.
func (n *node) write(ctx context.Context, c install.Choice, w install.Claim) error {
	n.Say("installing on %s", c.Disk)
	file := filepath.Join(boot.MemoryDir, "disk")
	defer os.Remove(file)

	packed, err := n.source.Packed(ctx)
	if err != nil {
		return err
	}

	size, err := install.Unpack(file, packed, n.params.Disk)
	if err := errors.Join(err, packed.Close()); err != nil {
		return err
	}

	image, err := os.Open(file)
	if err != nil {
		return err
	}
	defer image.Close()

	n.Done("get the system")
	id, err := partitions.NewIdentity(rand.Reader)
	if err != nil {
		return err
	}

	open := func(d volume.Disk) (block.Handle, error) { return install.Open(disks(), d) }
	system := install.System{Image: image, Size: size, Identity: id, Machine: n.text}
	if err := install.Write(ctx, open, c, w, system, n.progress()); err != nil {
		return err
	}

	n.Done("write the system")
	return nil
}

// progress logs each quarter.
func (n *node) progress() func(doing string, done, all int64) {
	began := time.Now()
	shown := ""
	return func(doing string, done, all int64) {
		n.Alive()
		line := fmt.Sprintf("%s: %d %%", doing, 4*done/max(all, 1)*25)
		if line == shown {
			return
		}
		shown = line
		n.Say("%s of %d MiB, after %s", line, all>>20, time.Since(began).Round(time.Millisecond))
	}
}

// startNext makes the firmware start the disk next. On a machine that was not
// started by UEFI the boot order is set elsewhere.
func (n *node) startNext(d install.Candidate) error {
	table, err := install.Table(d)
	if err != nil {
		return err
	}
	if err := install.StartNext("/sys", table); err != nil {
		n.Say("%v", hint.With(err, "have the firmware start from %s before all else", d.Device))
	}
	n.Say("%s has the system", d)
	return nil
}

// restart restarts the machine from its disk.
func (n *node) restart(ctx context.Context) error {
	if err := n.source.Installed(ctx); err != nil {
		n.Say("report to the server: %v", err)
	}

	wait := time.Second
	if n.source.Disk() != "" {
		n.Say("installed: remove the USB installer")
		wait = 10 * time.Second
	}

	if err := n.source.Close(); err != nil {
		n.Log("%v", err)
	}

	n.Restart(wait)
	return nil
}
