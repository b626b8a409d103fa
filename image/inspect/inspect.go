// Package inspect reads the content of an image, a disk or a UKI, from its
// bytes alone.
//
//	raw, zst, qcow2, UKI, directory --OpenSource--> Source, an io.ReaderAt
//	                                                   |
//	                                                 Read: gpt, fat, uki
//	                                                   |
//	           Comparison <--Compare(a, b)-- Image <---+
package inspect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/sbom"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

// Image is the content of a file. Sizes and offsets are in bytes.
type Image struct {
	// File is its name.
	File string `json:"file"`

	// Format is "raw", "raw, zstd", "qcow2" or "UKI".
	Format string `json:"format"`

	// Disk is nil for a UKI.
	Disk *Layout `json:"disk,omitempty"`

	// UKIs are the UKIs that the loader shows, in the order in which it prefers
	// them.
	UKIs []UKI `json:"ukis"`
}

// Layout is what is on a disk: its partition table, and the boot loader.
type Layout struct {
	// GUID is the disk's in its table.
	GUID uuid.UUID `json:"guid"`

	// Size is the size of the disk that the table is made for. A node grows its
	// table when it starts first.
	Size int64 `json:"size"`
	// DeviceSize is the size of the disk or image that has the table.
	DeviceSize int64 `json:"deviceSize"`
	// SectorSize is the size of a logical sector.
	SectorSize int         `json:"sectorSize"`
	Partitions []Partition `json:"partitions"`

	// Loader is the version of systemd-boot, "" if it is not there.
	Loader string `json:"loader,omitempty"`

	// LoaderSigners are the subjects of the certificates that it is signed
	// with.
	LoaderSigners []string `json:"loaderSigners,omitempty"`

	// Enroll are keys that the loader enrolls in firmware that has none.
	Enroll []Enrollment `json:"enroll,omitempty"`

	// Machine is the text of the machine.yaml on the ESP, "" if the ESP has no
	// such file.
	Machine string `json:"machine,omitempty"`

	// Damage is the fault of either copy of the table, or of the protective MBR;
	// "" if all are valid.
	Damage string `json:"damage,omitempty"`
}

// Partition is a partition of a disk.
type Partition struct {
	// Index is its number in the table, from 1.
	Index int `json:"index"`
	// Role is in the words of repart.d(5), "" if Loam does not use the partition.
	Role partitions.Role `json:"role,omitempty"`
	// Label is its name in the table.
	Label string `json:"label"`
	// UUID is its own in the table.
	UUID uuid.UUID `json:"uuid"`
	// Start is where it begins.
	Start int64 `json:"start"`
	// Size is how long it is.
	Size int64 `json:"size"`
}

// UKI is a kernel with all that it starts with.
type UKI struct {
	// Path is where it is on the ESP, "" for a file of its own.
	Path string `json:"path,omitempty"`
	// Size is the size of the file.
	Size int64 `json:"size"`
	// ImageID is the name of the image that it starts.
	ImageID string `json:"imageID"`
	// Version is the version of that.
	Version string `json:"version"`
	// Kernel is the release of its kernel.
	Kernel string `json:"kernel"`
	// Cmdline is the command line of its kernel.
	Cmdline string `json:"cmdline"`
	// RootHash is the verity root hash of the root that it mounts.
	RootHash string `json:"rootHash"`

	// Signers are the subjects of the certificates that it is signed with, for
	// firmware with Secure Boot on.
	Signers []string `json:"signers,omitempty"`

	// PCRKeys are the fingerprints of the keys that have signed its policy for PCR
	// 11 (firmware/pcrsig).
	PCRKeys  []string  `json:"pcrKeys,omitempty"`
	Sections []Section `json:"sections"`

	// Packages are the distribution's packages and Go modules, which have no
	// architecture; empty if the image does not say.
	Packages []manifest.Package `json:"packages,omitempty"`
}

// Section is a section of a UKI.
type Section struct {
	// Name is its name in the program, such as .linux.
	Name string `json:"name"`
	// Size is the length of its content.
	Size int64 `json:"size"`
	// SHA256 is the digest of its content, in hex.
	SHA256 string `json:"sha256"`
}

// Read reads what r of that size has: a disk, or a UKI. A disk without a Loam
// system has no UKIs.
func Read(r io.ReaderAt, size int64) (Image, error) {
	start := make([]byte, 2)
	if _, err := r.ReadAt(start, 0); err != nil {
		return Image{}, err
	}

	if string(start) == "MZ" {
		u, err := readUKI(io.NewSectionReader(r, 0, size))
		return Image{Format: "UKI", UKIs: []UKI{u}}, err
	}

	table, err := gpt.Find(r, size)
	if err != nil {
		return Image{}, hint.With(
			fault.With(fmt.Errorf("neither a UKI nor a disk with a GUID partition table: %w", err),
				fault.NotAnImage),
			"name a disk image (raw, packed, qcow2), a UKI, or the directory of a build")
	}

	im := Image{
		Format: "raw",
		Disk: &Layout{
			GUID:       table.DiskGUID,
			Size:       table.DiskSize,
			DeviceSize: size,
			SectorSize: table.SectorSize,
		},
	}

	if err := table.Source.Fault(); err != nil {
		im.Disk.Damage = err.Error()
	}

	for _, p := range table.Partitions {
		role := partitions.RoleOf(p.Type)
		im.Disk.Partitions = append(im.Disk.Partitions, Partition{
			Index: p.Index,
			Role:  role,
			Label: p.Label,
			UUID:  p.UUID,
			Start: p.Start,
			Size:  p.Size,
		})

		if partitions.HasLoader(p) {
			err := im.readESP(io.NewSectionReader(r, p.Start, p.Size), table.SectorSize)
			if err != nil {
				return im, fmt.Errorf("partition %d: %w", p.Index, err)
			}
		}
	}

	return im, nil
}

// readESP reads the loader and the entries.
func (im *Image) readESP(part *io.SectionReader, sectorSize int) error {
	esp, err := fat.Open(fat.ReadOnly(part), part.Size(), sectorSize)
	if err != nil {
		return err
	}

	for _, arch := range []string{"amd64", "arm64"} {
		r, err := esp.Open(loader.Path(arch))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return err
		}

		im.Disk.Loader, _ = loader.Version(r)
		im.Disk.LoaderSigners, err = signers(r)
		if err != nil {
			return fmt.Errorf("%s: %w", loader.Path(arch), err)
		}
	}

	im.Disk.Enroll, err = readEnrollments(esp)
	if err != nil {
		return err
	}

	im.Disk.Machine, err = readMachine(esp)
	if err != nil {
		return err
	}

	files, err := esp.ReadDir(bootentry.Dir)
	if err != nil {
		return err
	}

	for _, f := range files {
		if f.Dir || f.Size == 0 {
			continue
		}

		path := bootentry.Dir + "/" + f.Name
		r, err := esp.Open(path)
		if err != nil {
			return err
		}

		u, err := readUKI(r)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}

		u.Path = path
		im.UKIs = append(im.UKIs, u)
	}

	slices.SortStableFunc(im.UKIs, func(a, b UKI) int {
		return bootentry.Compare(a.name(), b.name())
	})

	return nil
}

// Machine returns the text of the machine.yaml on the ESP of a disk, "" if the
// ESP has no such file.
func Machine(r io.ReaderAt, size int64) (string, error) {
	table, err := gpt.Find(r, size)
	if err != nil {
		return "", err
	}

	at := slices.IndexFunc(table.Partitions, partitions.HasLoader)
	if at < 0 {
		return "", nil
	}

	p := table.Partitions[at]
	esp, err := fat.Open(fat.ReadOnly(io.NewSectionReader(r, p.Start, p.Size)), p.Size,
		table.SectorSize)
	if err != nil {
		return "", fmt.Errorf("partition %d: %w", p.Index, err)
	}

	return readMachine(esp)
}

// maxMachine bounds the machine.yaml that is read.
const maxMachine = 1 << 20

func readMachine(esp *fat.FS) (string, error) {
	r, err := esp.Open(partitions.MachineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}

	if err != nil {
		return "", err
	}

	text, err := io.ReadAll(io.LimitReader(r, maxMachine))
	if err != nil {
		return "", fmt.Errorf("%s: %w", partitions.MachineFile, err)
	}

	return string(text), nil
}

// name is the name of an entry; other files get a name that sorts after all
// entries.
func (u UKI) name() bootentry.Name {
	n, err := bootentry.Parse(u.Path[strings.LastIndexByte(u.Path, '/')+1:])
	if err != nil {
		return bootentry.Name{Counted: true}
	}
	return n
}

func readUKI(r *io.SectionReader) (UKI, error) {
	sections, err := uki.Parse(r)
	if err != nil {
		return UKI{}, err
	}

	text := func(name string) string {
		have, _ := sections.Section(name)
		return strings.TrimRight(string(have), "\n\x00")
	}

	release := osrelease.Parse([]byte(text(".osrel")))
	u := UKI{
		Size:    r.Size(),
		ImageID: release[osrelease.ImageID],
		Version: release[osrelease.ImageVersion],
		Kernel:  text(".uname"),
		Cmdline: text(".cmdline"),
	}

	for word := range strings.FieldsSeq(u.Cmdline) {
		if hash, ok := strings.CutPrefix(word, "roothash="); ok {
			u.RootHash = hash
		}
	}

	for _, s := range sections {
		sum := sha256.Sum256(s.Data)
		u.Sections = append(u.Sections,
			Section{s.Name, int64(len(s.Data)), hex.EncodeToString(sum[:])})
	}

	if software, ok := sections.Section(uki.SBOM); ok {
		u.Packages, err = sbom.Decode(bytes.TrimRight(software, "\x00"))
		if err != nil {
			return u, err
		}
	}

	if text, ok := sections.Section(pcrsig.Section); ok {
		u.PCRKeys, err = pcrsig.Keys(text)
		if err != nil {
			return u, err
		}
	}

	u.Signers, err = signers(r)
	return u, err
}

// signers are the subjects of the certificates that an EFI program is signed
// with.
func signers(r *io.SectionReader) (names []string, err error) {
	signed, err := authenticode.Read(r, r.Size())
	if err != nil {
		return nil, err
	}
	for _, chain := range signed.Signatures {
		c, err := x509.ParseCertificate(chain[0])
		if err != nil {
			return nil, err
		}
		names = append(names, cmp.Or(c.Subject.CommonName, c.Subject.String()))
	}
	return names, nil
}
