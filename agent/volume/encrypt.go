package volume

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/luks"
)

// Container is an encrypted volume that is to be made (LUKS2).
type Container struct {
	UUID uuid.UUID

	// Key is the passphrase of its first key slot, Recovery the second key slot;
	// nil if the recovery key of the state is not known.
	Key      []byte
	Recovery *luks.Prepared
}

// newContainer returns a container with a random key.
func newContainer(root fs.FS) (*Container, error) {
	c := Container{UUID: uuid.New(), Key: make([]byte, 32)}
	if _, err := io.ReadFull(rand.Reader, c.Key); err != nil {
		return nil, err
	}

	var recovery luks.Prepared
	found, err := durable.ReadJSON(root, crypt.RecoveryName, &recovery)
	if err != nil {
		return nil, fmt.Errorf("recovery key of the new volume: %w", err)
	}
	if found {
		c.Recovery = &recovery
	}
	return &c, nil
}

// makeEncrypted makes a container on a disk of size bytes, with a file system in
// it. The mark of the disk stays until the container is complete.
func (m Maker) makeEncrypted(
	ctx context.Context, disk Writable, size int64, fileSystem string, in Container,
) error {
	h, key, err := luks.New(in.UUID, m.For.Label, rand.Reader)
	if err != nil {
		return err
	}

	mark := make([]byte, luks.SectorSize)
	copy(mark, m.For.Mark)
	if err := writeSynced(disk, mark); err != nil {
		return fmt.Errorf("mark disk: %w", err)
	}
	// An older container may have had other key slots.
	err = disk.Zero(luks.SectorSize, h.DataOffset()-luks.SectorSize)
	if err != nil {
		return fmt.Errorf("zero header: %w", err)
	}

	inside := encrypted{disk, h, key}
	err = m.makeOn(ctx, inside, h.DataSize(size), fileSystem, luks.SectorSize)
	if err != nil {
		return err
	}
	if _, err := h.AddSlot(disk, key, in.Key, luks.ForKeys(), rand.Reader); err != nil {
		return err
	}
	if in.Recovery != nil {
		if _, err := h.AddPrepared(disk, key, *in.Recovery, rand.Reader); err != nil {
			return err
		}
	}
	return h.Write(disk)
}

// encrypted is the data of a container that is not mapped. It only writes.
type encrypted struct {
	Writable
	header *luks.Header
	key    []byte
}

// WriteAt implements [io.WriterAt].
func (e encrypted) WriteAt(p []byte, at int64) (int, error) {
	if err := e.header.WriteData(e.Writable, e.key, p, at); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Zero implements [Writable].
func (e encrypted) Zero(at, n int64) error {
	zeros := make([]byte, min(n, mib))
	for end := at + n; at < end; at += int64(len(zeros)) {
		zeros = zeros[:min(int64(len(zeros)), end-at)]
		if _, err := e.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return nil
}

// errPlain says that a volume from elsewhere would have the secrets of a node
// whose state is encrypted. To refuse it is safe: a node that refuses it is new,
// and has no data on it.
func errPlain(p *Purpose) error {
	return hint.With(fault.With(fmt.Errorf("the disk has %s that is not encrypted, "+
		"and the state of this node is", p.a()), fault.DiskNotEmpty),
		"if nothing on it is needed, empty the disk from another system (wipefs --all, and zeros "+
			"in its first and last MiB); the node then makes an encrypted one")
}

// notEncrypted is the warning about a volume that is older than the encryption of
// volumes. To refuse it would stop a node that works.
func notEncrypted(p *Purpose) string {
	return "the " + p.Name + " is not encrypted, although the state is: drain the node " +
		"and empty the disk for an encrypted one"
}

// open maps an encrypted volume, unless it is mapped already, and returns the
// choice of the decrypted device.
func (v Volume) open(record Record, c Choice) (Choice, error) {
	if c.Container == "" {
		return c, nil
	}

	device := v.Machine.mapped(c.Device, v.For.Mapping)
	if device == "" {
		var err error
		device, err = v.mapContainer(record, c)
		if err != nil {
			return c, fmt.Errorf("open encrypted %s %s: %w", v.For.Name, c.Device, err)
		}
	}

	f, err := v.Machine.Open(device, false)
	if err != nil {
		return c, fmt.Errorf("open encrypted %s %s: %w", v.For.Name, c.Device, err)
	}
	defer f.Close()

	size := v.Machine.number(sizeFile(device)) * 512
	content := ReadContent(f, size)
	if content.FileSystem == "" {
		return c, fmt.Errorf("encrypted %s %s: no file system in it: %s", v.For.Name,
			c.Device, content)
	}
	c.Device = device
	c.FileSystem = content.FileSystem
	c.Grow = grows(content, size)
	return c, nil
}

func (v Volume) mapContainer(record Record, c Choice) (device string, err error) {
	f, err := v.Machine.Open(c.Device, false)
	if err != nil {
		return "", err
	}
	defer f.Close()

	h, err := luks.Read(f)
	if err != nil {
		return "", err
	}
	secret, err := hex.DecodeString(record.Encryption.Key)
	if err != nil {
		return "", err
	}
	key, _, err := h.Open(f, secret)
	if err != nil {
		return "", err
	}
	return v.System.Map(v.For.Mapping, h, h.Table(c.Device, key), h.DataSize(c.Size))
}

// Drop makes an encrypted volume unreadable for good, also by the recovery key. A
// volume that is mapped stays so. Its disk has the mark afterwards, so that
// the node makes another volume on it. Without an encrypted volume, or without its
// disk, Drop does nothing.
func (v Volume) Drop(open func(device string) (*os.File, error)) error {
	record, _, err := v.For.ReadRecord(v.Dir.Root().FS())
	if err != nil || record.Encryption.UUID == "" {
		return err
	}
	disks, err := Observe(v.Machine)
	if err != nil {
		return err
	}

	for _, d := range disks {
		if d.Content.Container != record.Encryption.UUID {
			continue
		}
		f, err := open(d.Device)
		if err != nil {
			return fmt.Errorf("drop the key of the %s: %w", v.For.Name, err)
		}
		if err := errors.Join(dropHeader(f, v.For.Mark), f.Close()); err != nil {
			return fmt.Errorf("drop the key of the %s %s: %w", v.For.Name, d.Device, err)
		}
	}
	return nil
}

// dropHeader overwrites the key slots of a container, and then its header: as long
// as there is a key slot, the header is there, by which Drop finds the container
// again after a power cut.
func dropHeader(d device.Device, mark string) error {
	for _, part := range []struct {
		from, to int64
		start    string
	}{
		{from: luks.KeyslotsOffset, to: luks.DataOffset},
		{from: 0, to: luks.SectorSize, start: mark},
		{from: luks.SectorSize, to: luks.KeyslotsOffset},
	} {
		b := make([]byte, mib)
		copy(b, part.start)
		for at := part.from; at < part.to; at += mib {
			if _, err := d.WriteAt(b[:min(mib, part.to-at)], at); err != nil {
				return err
			}
		}
		if err := d.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// mapped returns the device that decrypts a disk under the name mapping, "" if it
// has none.
func (m Machine) mapped(device, mapping string) string {
	holders, _ := fs.ReadDir(m.Root, path.Dir(sizeFile(device))+"/holders")
	for _, h := range holders {
		if m.isMapping(h.Name(), mapping) {
			return block.Node(h.Name())
		}
	}
	return ""
}

// isMapping reports whether a device decrypts a disk under the name mapping.
func (m Machine) isMapping(device, mapping string) bool {
	return m.text("sys/block/"+path.Base(device)+"/dm/name") == mapping
}

// beneath returns the disk that a device decrypts, "" if it is gone.
func (m Machine) beneath(device string) string {
	disks, _ := fs.ReadDir(m.Root, "sys/block/"+path.Base(device)+"/slaves")
	if len(disks) != 1 {
		return ""
	}
	return block.Node(disks[0].Name())
}
