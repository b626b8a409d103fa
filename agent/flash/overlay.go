package flash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

// Overlay is an image with changes, which are kept in memory.
type Overlay struct {
	r    io.ReaderAt
	over map[int64][]byte // blocks of align bytes, by offset
}

// NewOverlay returns r without changes.
func NewOverlay(r io.ReaderAt) *Overlay { return &Overlay{r, map[int64][]byte{}} }

// ReadAt implements [io.ReaderAt].
func (o *Overlay) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.r.ReadAt(p, off)
	for at := off / align * align; at < off+int64(n); at += align {
		if b, ok := o.over[at]; ok {
			copy(p[max(0, at-off):n], b[max(0, off-at):])
		}
	}
	return n, err
}

// WriteAt implements [io.WriterAt].
func (o *Overlay) WriteAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		at := off + int64(done)
		start := at / align * align
		b, ok := o.over[start]
		if !ok {
			b = make([]byte, align)
			if _, err := o.r.ReadAt(b, start); err != nil && !errors.Is(err, io.EOF) {
				return done, err
			}
			o.over[start] = b
		}

		done += copy(b[at-start:], p[done:])
	}
	return len(p), nil
}

// Sync does nothing; it makes an Overlay a [device.Device].
func (o *Overlay) Sync() error { return nil }

// MachineFile is the path on the ESP at which a node finds its machine.yaml.
const MachineFile = partitions.MachineFile

// Prepare gives an image of a disk its identity, and puts machine.yaml on the
// ESP of an image or of an installer medium. It returns what to write of it.
// machine is nil if none.
func Prepare(
	o *Overlay, size int64, id partitions.Identity, machine []byte,
) (Image, error) {
	im, err := Look(o, size)
	if err != nil {
		return im, err
	}

	if table := id.Give(im.Table); table.DiskGUID != im.Table.DiskGUID {
		if err := table.Write(o); err != nil {
			return im, fmt.Errorf("identity of the disk: %w", err)
		}
	}
	if machine == nil {
		return Look(o, size)
	}

	if err := o.setMachine(im.Table, machine); err != nil {
		return im, fmt.Errorf("put machine.yaml on the ESP: %w", err)
	}
	return Look(o, size)
}

func (o *Overlay) setMachine(table gpt.Table, text []byte) error {
	at := slices.IndexFunc(table.Partitions, partitions.HasLoader)
	if at < 0 {
		return errors.New("the image has no ESP")
	}

	p := table.Partitions[at]
	esp, err := fat.Open(
		section{io.NewSectionReader(o, p.Start, p.Size), io.NewOffsetWriter(o, p.Start)},
		p.Size,
		table.SectorSize,
	)
	if err == nil {
		if _, missing := esp.ReadDir(path.Dir(MachineFile)); missing != nil {
			err = esp.Mkdir(path.Dir(MachineFile))
		}
	}

	if err == nil {
		err = esp.WriteFile(MachineFile, text)
	}

	if err != nil {
		return err
	}

	r, err := esp.Open(MachineFile)
	if err != nil {
		return err
	}
	if have, err := io.ReadAll(r); err != nil || !bytes.Equal(have, text) {
		return errors.Join(err, errors.New("it reads back differently"))
	}

	return nil
}

// section is a partition of an Overlay.
type section struct {
	*io.SectionReader
	io.WriterAt
}

// Sync implements [device.Device].
func (section) Sync() error { return nil }
