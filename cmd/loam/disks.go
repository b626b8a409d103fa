package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/install"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/hint/fault"
)

func disksCommand() *cobra.Command {
	var root, format string
	cmd := &cobra.Command{
		Use:   "disks [MACHINE.yaml]",
		Short: "Show the disks, what is on them, and how to claim them",
		Long: `disks shows each disk of the machine, what uses it, which tables and signatures
are on it, and the line of machine.yaml that would claim it for what the kubelet
keeps. With a machine.yaml, it shows which disks that claims for the kubelet, for etcd
and for an installation, and what would be done with them. It reads, and writes
nothing.`,
		Example: "  loam disks\n  loam disks machine.yaml\n  loam disks -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return showDisks(cmd.OutOrStdout(), format, root)
			}
			return showClaimed(cmd.OutOrStdout(), format, root, args[0])
		},
	}

	cmd.ValidArgsFunction = completeYAML
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().StringVar(&root, "root", "/", "`DIR` in place of the root directory of the node")
	return cmd
}

// observeDisks looks at the disks of the node beneath root.
func observeDisks(root string) ([]volume.Disk, error) {
	if err := checkRoot(root); err != nil {
		return nil, err
	}
	disks, err := volume.Observe(disksOf(root))
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.With(fmt.Errorf("%s has no /sys or no /proc: %w", root, err), fault.NotANode)
	}
	return disks, err
}

// disksOf is the machine beneath root.
func disksOf(root string) volume.Machine {
	return volume.Machine{
		Root: os.DirFS(root),
		Open: func(node string, exclusive bool) (volume.Device, error) {
			return volume.OpenToLook(filepath.Join(root, node), exclusive)
		},
	}
}

// showDisks lists the disks, as the refusal of a missing claim does.
func showDisks(out io.Writer, format, root string) error {
	disks, err := observeDisks(root)
	if err != nil {
		return err
	}
	refusal, err := show.Candidates(disks)
	if err != nil {
		return err
	}
	all, err := show.DisksOf(disks)
	if err != nil {
		return err
	}
	return outcome.Write(out, format, all, refusal.ListParts)
}

// showClaimed says which disk the machine.yaml in file claims.
func showClaimed(out io.Writer, format, root, file string) error {
	text, err := document.ReadFile(file)
	if err != nil {
		return err
	}

	m, err := machine.DecodeUnverified(file, text)
	if err != nil {
		return err
	}

	disks, err := observeDisks(root)
	if err != nil {
		return err
	}
	all, err := show.DisksOf(disks)
	if err != nil {
		return err
	}

	data, err := claimOf(root, volume.Data, m.DataVolume.Claim())
	if err != nil {
		return err
	}
	etcd, err := claimOf(root, volume.Etcd, m.Cluster.EtcdVolume.Claim())
	if err != nil {
		return err
	}

	system, err := systemClaimOf(root, m)
	if err != nil {
		return err
	}

	var lines string
	if data.matters() || (!etcd.matters() && system == nil) {
		choice, err := data.decide(disks, etcd)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all.Claimed = claimed(choice)
		lines += lineOf(choice, volume.Data)
	}
	if etcd.matters() {
		choice, err := etcd.decide(disks, data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all.EtcdClaimed = claimed(choice)
		lines += lineOf(choice, volume.Etcd)
	}
	if system != nil {
		choice, err := system.decide()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all.InstallClaimed = &show.Claimed{Device: choice.Disk.Device, Format: !choice.Installed}
		lines += systemLineOf(choice)
	}
	return outcome.Write(out, format, all, func() string { return lines })
}

// volumeClaim is the claim of a machine.yaml to a disk for a purpose, with what the
// node has recorded of such a volume.
type volumeClaim struct {
	purpose *volume.Purpose
	claim   volume.Claim
	record  volume.Record
}

// claimOf returns the claim with the record of the node beneath root.
func claimOf(root string, p *volume.Purpose, claim volume.Claim) (volumeClaim, error) {
	record, _, err := p.ReadRecord(os.DirFS(root))
	return volumeClaim{purpose: p, claim: claim, record: record}, asRoot(err)
}

// matters reports whether a disk is claimed, or the node has had one.
func (c volumeClaim) matters() bool { return !c.claim.IsZero() || c.record.Made }

// decide returns what the node would do with the disks.
func (c volumeClaim) decide(disks []volume.Disk, other volumeClaim) (volume.Choice, error) {
	return volume.Decide(volume.Facts{
		Disks:     disks,
		Made:      c.record.Made,
		Container: c.record.Encryption.UUID,
		Field:     c.purpose.Field,
		Rivals:    []volume.Rival{{Field: other.purpose.Field, Claim: other.claim}},
	}, c.claim)
}

func claimed(c volume.Choice) *show.Claimed {
	return &show.Claimed{
		Device:     c.Device,
		FileSystem: c.FileSystem,
		Encrypted:  c.Container != "",
		Format:     c.Action != volume.ToUse,
	}
}

// systemClaim is the claim of a machine.yaml to a disk for the system.
type systemClaim struct {
	claim install.Claim
	facts install.Facts
}

// systemClaimOf returns the claim, nil if there is none, or if the node runs from its
// disk and ignores it.
func systemClaimOf(root string, m machine.Machine) (*systemClaim, error) {
	if m.Install == nil {
		return nil, nil
	}
	facts, err := install.Observe(disksOf(root), "")
	if err != nil {
		return nil, err
	}
	runs := func(d install.Candidate) bool { return d.HasSystem(facts.Arch) && len(d.Uses) > 0 }
	if slices.ContainsFunc(facts.Disks, runs) {
		return nil, nil
	}
	claim := install.Claim{Claim: m.Install.Disk.Claim(), Wipe: m.Install.Wipe}
	return &systemClaim{claim, facts}, nil
}

// decide returns what a machine that runs from memory would do with the disks.
func (c systemClaim) decide() (install.Choice, error) { return install.Decide(c.facts, c.claim) }

// systemLineOf says what would be done with the disk of the system.
func systemLineOf(c install.Choice) string {
	what := "is empty, and would get the system"
	switch {
	case c.Installed:
		what = "has a system, and would be left as it is"
	case c.Disk.Marked:
		what = "has an unfinished system, which would be written again"
	case len(c.Disk.Content.Evidence) > 0:
		what = "would get the system in place of all that is on it"
	}
	return fmt.Sprintf("%s: %s\n", c.Disk.Device, what)
}

// lineOf says what would be done with the disk of a volume. A disk that is formatted
// for the kubelet needs no further word.
func lineOf(c volume.Choice, p *volume.Purpose) string {
	what := map[volume.Action]string{
		volume.ToUse:    "has the " + p.Name + " (" + cmp.Or(c.FileSystem, "encrypted") + ")",
		volume.ToFormat: "is empty, and would be formatted",
		volume.ToFinish: "has an unfinished " + p.Name + ", and would be formatted again",
	}[c.Action]
	if p != volume.Data && c.Action == volume.ToFormat {
		what += " for " + p.User
	}
	return fmt.Sprintf("%s: %s\n", c.Device, what)
}
