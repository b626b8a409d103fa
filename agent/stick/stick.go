// Package stick finds the stick of a USB installer: its system is a packed disk
// image on the partition that the installer was started from.
package stick

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/install"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

// ErrNotThere says that no disk seen so far is the stick: more may appear.
var ErrNotThere = errors.New("no disk is the installer's stick")

// Stick is a USB installer that was found.
type Stick struct {
	device   string
	files    *fat.FS
	closer   io.Closer
	sum      string
	rootHash [32]byte
	// Moved is told that a step has come further.
	Moved func()
}

// Find looks for the partition that has the packed image of that SHA-256, in hex: its UUID is the first half of that.
func Find(facts boot.Facts, sum string, rootHash [32]byte) (*Stick, error) {
	id, err := partitions.InstallerUUID(sum)
	if err != nil {
		return nil, err
	}
	for _, d := range facts.Disks {
		if d.Table == nil {
			continue
		}
		at := slices.IndexFunc(d.Table.Partitions, func(p gpt.Partition) bool { return p.UUID == id })
		if at < 0 {
			continue
		}
		p := d.Table.Partitions[at]
		device, err := os.Open(d.Device)
		if err != nil {
			return nil, err
		}
		files, err := fat.Open(fat.ReadOnly(io.NewSectionReader(device, p.Start, p.Size)), p.Size, d.SectorSize)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("stick %s: %w", d.Device, err), device.Close())
		}
		return &Stick{device: d.Device, files: files, closer: device, sum: sum, rootHash: rootHash, Moved: func() {}}, nil
	}
	return nil, ErrNotThere
}

// Disk is the device node of the stick.
func (s *Stick) Disk() string { return s.device }

// String names the stick.
func (s *Stick) String() string { return "stick " + s.device }

// Close is io.Closer.
func (s *Stick) Close() error { return s.closer.Close() }

// Machine is the machine.yaml on the stick, nil if there is none.
func (s *Stick) Machine(context.Context) ([]byte, error) {
	r, err := s.files.Open(partitions.MachineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Packed is the packed disk image.
func (s *Stick) Packed(context.Context) (io.ReadCloser, error) {
	r, err := s.files.Open(partitions.InstallerFile)
	return io.NopCloser(&moving{r, s}), err
}

// moving is a reader of the stick, which may be slow.
type moving struct {
	*io.SectionReader
	s *Stick
}

func (m *moving) Read(p []byte) (int, error) {
	m.s.Moved()
	return m.SectionReader.Read(p)
}

// System unpacks the disk image into dir, and finds root file system and hash tree in it.
func (s *Stick) System(ctx context.Context, dir string) (root, tree boot.File, err error) {
	packed, err := s.Packed(ctx)
	if err != nil {
		return root, tree, err
	}
	name := filepath.Join(dir, "disk")
	size, err := install.Unpack(name, packed, s.sum)
	if err != nil {
		return root, tree, err
	}
	f, err := os.Open(name)
	if err != nil {
		return root, tree, err
	}
	defer f.Close()
	table, err := gpt.Find(f, size)
	if err != nil {
		return root, tree, fmt.Errorf("disk image on the stick: %w", err)
	}
	slots, err := partitions.Slots(table, runtime.GOARCH)
	if err != nil {
		return root, tree, fmt.Errorf("disk image on the stick: %w", err)
	}
	part := func(index int) boot.File {
		p := table.Partition(index)
		return boot.File{Name: name, Start: p.Start, Size: p.Size}
	}
	return part(slots[0].Root), part(slots[0].Verity), nil
}

// Installed does nothing: no server waits for the news.
func (s *Stick) Installed(context.Context) error { return nil }

// deviceTimeout is how long the stick may take to appear.
const deviceTimeout = 60 * time.Second

// Await looks for the stick each time a device appears.
func Await(i *boot.Init, sum string, rootHash [32]byte) (*Stick, error) {
	for deadline := time.Now().Add(deviceTimeout); ; {
		facts, err := boot.Observe()
		if err != nil {
			return nil, err
		}
		s, err := Find(facts, sum, rootHash)
		if !errors.Is(err, ErrNotThere) {
			return s, err
		}
		if !i.Await(deadline) {
			return nil, hint.With(err,
				"waited %s for it; was it written as a whole, or its partition copied?",
				deviceTimeout)
		}
	}
}
