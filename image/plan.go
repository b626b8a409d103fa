package image

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// Plan is all that can be decided before the root file system is made. A plan
// of [Plan.WithRootHash] also has the identities that follow from the root
// hash.
type Plan struct {
	Spec Spec

	// Table has every offset and size; the UUIDs are final with the root hash.
	Table gpt.Table

	// UKI is the path of the unified kernel image on the ESP.
	UKI string

	// Cmdline is the kernel command line; roothash= is in it with the
	// root hash.
	Cmdline string

	// LiveCmdline is the command line of a system that runs from memory,
	// fetched over the network; it is known WithDisk.
	LiveCmdline string

	// RootHash stands for an unknown one until WithRootHash.
	RootHash [32]byte
	defs     []partitions.Definition
}

// Decide plans the image of s. It is pure.
func Decide(s Spec) (Plan, error) {
	if err := s.Validate(); err != nil {
		return Plan{}, err
	}

	defs, err := partitions.Definitions()
	if err != nil {
		return Plan{}, err
	}

	name, err := bootentry.Format(s.entry())
	if err != nil {
		return Plan{}, err
	}

	p := Plan{Spec: s, UKI: path.Join("EFI/Linux", name), defs: defs}
	return p.WithRootHash(unknown)
}

// unknown stands for the root hash until it is known: zero UUIDs are no table.
var unknown = [32]byte{0: 1, 16: 2}

// WithRootHash returns the plan with a root hash, and so with its UUIDs and
// command line.
func (p Plan) WithRootHash(root [32]byte) (Plan, error) {
	var err error
	p.RootHash = root
	p.Cmdline = SetTrust(cmdline(p.Spec, root), p.Spec.MachineTrust)
	p.Table, err = partitions.Place(p.defs, partitions.Params{
		Arch:       p.Spec.Arch,
		RootHash:   root,
		SectorSize: p.Spec.SectorSize,
		ImageID:    p.Spec.Release.ImageID,
		Version:    p.Spec.Release.Version,
	})

	return p, err
}

// WithDisk returns the plan with the SHA-256, in hex, of the packed disk image,
// which a system that runs from memory may install.
func (p Plan) WithDisk(sum string) Plan {
	p.LiveCmdline = p.live(sum, "network")
	return p
}

// InstallerCmdline returns the command line of a USB installer, which has the
// packed disk image with the SHA-256, in hex.
func (p Plan) InstallerCmdline(sum string) string { return p.live(sum, "stick") }

// live returns the command line of a system that gets itself and the packed
// disk image from the network or a USB installer (agent/live).
func (p Plan) live(sum, from string) string {
	return p.Cmdline + " loam.from=" + from + " loam.disk=sha256:" + sum
}

// cmdline of the kernel. gpt lets it use the backup of a damaged partition
// table, which /init then repairs; panic= restarts a machine that cannot go on;
// quiet leaves the console to the node's status. lockdown= and module.sig_enforce
// keep root from changing the kernel (kernel_lockdown(7)), as Secure Boot does,
// and slab_nomerge keeps a freed object of one kind from becoming one of another.
// A virtual machine whose host has no time for it may lose the ticks by which the
// kernel judges its timer, and panic: no_timer_check leaves that out (kernel parameters).
// loam.epoch is for /init (agent/boot).
func cmdline(s Spec, root [32]byte) string {
	serial := "ttyS0"
	if s.Arch == "arm64" {
		serial = "ttyAMA0"
	}
	text := fmt.Sprintf(
		"roothash=%s console=tty0 console=%s gpt quiet loglevel=4 panic=10 "+
			"lockdown=integrity module.sig_enforce=1 slab_nomerge systemd.show_status=no",
		hex.EncodeToString(root[:]), serial,
	)
	if s.Profile != Metal && s.Arch == "amd64" {
		text += " no_timer_check"
	}
	if s.Release.Epoch > 0 {
		text += fmt.Sprintf(" loam.epoch=%d", s.Release.Epoch)
	}
	return text
}

// trustParameter is the kernel parameter with the keys for machine.yaml
// (agent/trust).
const trustParameter = "loam.trust="

// SetTrust returns a command line with these keys for machine.yaml instead of
// those that it has. They come after its first word, so that a command line
// that goes on where another ends still does so.
func SetTrust(cmdline, keys string) string {
	words := slices.DeleteFunc(strings.Fields(cmdline), func(word string) bool {
		return strings.HasPrefix(word, trustParameter)
	})
	if keys != "" && len(words) > 0 {
		words = slices.Insert(words, 1, trustParameter+keys)
	}
	return strings.Join(words, " ")
}

// Slot returns the partition of slot A with the role.
func (p Plan) Slot(role partitions.Role) gpt.Partition {
	return p.first(partitions.TypeUUID(role, p.Spec.Arch))
}

func (p Plan) first(kind uuid.UUID) gpt.Partition {
	for _, part := range p.Table.Partitions {
		if part.Type == kind {
			return part
		}
	}
	return gpt.Partition{}
}

// Base is what the names of all outputs begin with: ID_VERSION_ARCH.
func (p Plan) Base() string {
	return fmt.Sprintf("%s_%s_%s",
		p.Spec.Release.ImageID, p.Spec.Release.Version, bootentry.Arch(p.Spec.Arch))
}

// About returns what an update bundle says about the system.
func (p Plan) About() bundle.Sources {
	s := p.Spec
	return bundle.Sources{
		ImageID:  s.Release.ImageID,
		Version:  s.Release.Version,
		Arch:     s.Arch,
		Profile:  s.Profile,
		RootHash: hex.EncodeToString(p.RootHash[:]),
		Epoch:    s.Release.Epoch,
	}
}

// Images are the outputs that contain the system or part of it.
func (p Plan) Images() []string {
	var names []string
	for _, suffix := range []string{
		".raw", ".raw.zst", ".qcow2", ".root", ".verity", ".efi", PackSuffix, IndexSuffix,
		PXESuffix, KernelSuffix, InitrdSuffix, InstallerSuffix, InstallerSuffix + ".zst",
		SBOMSuffix,
	} {
		names = append(names, p.Base()+suffix)
	}
	return names
}

// Suffixes of the update bundle: the pack has the chunks of root, verity tree
// and UKI, the index names them. A repository adds the security epoch, and
// signs the index.
const (
	PackSuffix  = ".pack"
	IndexSuffix = ".index.json"
)

// Suffixes of the PXE set (a UKI for UEFI, kernel and initramfs for iPXE), and
// of the USB installer.
const (
	PXESuffix       = ".pxe.efi"
	KernelSuffix    = ".vmlinuz"
	InitrdSuffix    = ".initrd"
	InstallerSuffix = ".usb.raw"
)

// Suffixes of the signature of the root hash, and of the SPDX document about
// the content of the image.
const (
	SignatureSuffix = ".verity-sig"
	SBOMSuffix      = ".spdx.json"
)

// Names of the outputs that describe the others.
const (
	ManifestName = "manifest.json"
	SumsName     = "SHA256SUMS"
	// SumsSignature is the detached signature of SumsName, if the build has
	// one.
	SumsSignature = SumsName + ".gpg"
)

// String shows the plan as text.
func (p Plan) String() string {
	var b strings.Builder
	r := p.Spec.Release
	fmt.Fprintf(&b, "%s %s for %s, profile %s\n\n",
		r.ImageID, r.Version, p.Spec.Arch, p.Spec.Profile)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PARTITION\tLABEL\tSTART\tSIZE\tUUID")

	for _, part := range p.Table.Partitions {
		fmt.Fprintf(w, "%d\t%s\t%d MiB\t%d MiB\t%s\n",
			part.Index, part.Label, part.Start>>20, part.Size>>20, p.identity(part))
	}

	_ = w.Flush()
	fmt.Fprintf(&b, "\ndisk      %d MiB, sectors of %d bytes, sparse\nUKI       %s\ncmdline   %s\n",
		p.Table.DiskSize>>20, p.Table.SectorSize, p.UKI, p.shownCmdline())
	fmt.Fprintf(&b, "outputs   %s\n", strings.Join(append(p.Images(), ManifestName, SumsName), " "))

	return b.String()
}

func (p Plan) hasRootHash() bool { return p.RootHash != unknown }

func (p Plan) identity(part gpt.Partition) string {
	if !p.hasRootHash() {
		return "from the root hash"
	}
	return part.UUID.String()
}

func (p Plan) shownCmdline() string {
	if p.hasRootHash() {
		return p.Cmdline
	}
	return strings.Replace(p.Cmdline, hex.EncodeToString(unknown[:]), "<root hash>", 1)
}
