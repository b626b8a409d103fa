package fat

import (
	"errors"
	"fmt"

	"github.com/loam-os/loam/partitions/device"
)

// disk turns reads and writes of any bytes into reads and writes of blocks.
type disk struct {
	d     device.Device
	size  int64
	block int64
	err   error // of the first write or flush that failed
	dirty bool  // something was written since the last flush
}

// around returns the range of blocks that holds the n bytes at off.
func (d *disk) around(off int64, n int) (start, end int64, err error) {
	if off < 0 || off > d.size || int64(n) > d.size-off {
		return 0, 0, fmt.Errorf("%d bytes at offset %d: outside the partition's %d bytes",
			n, off, d.size)
	}
	end = off + int64(n) + d.block - 1
	return off - off%d.block, end - end%d.block, nil
}

func (d *disk) read(p []byte, off int64) error {
	start, end, err := d.around(off, len(p))
	if err != nil {
		return err
	}

	b := p
	if end-start != int64(len(p)) {
		b = make([]byte, end-start)
	}

	// A reader may say EOF along with the last bytes.
	if n, err := d.d.ReadAt(b, start); n < len(b) {
		return fmt.Errorf("read %d bytes at offset %d: %w", len(b), start, err)
	}

	if end-start != int64(len(p)) {
		copy(p, b[off-start:])
	}

	return nil
}

func (d *disk) write(p []byte, off int64) error {
	start, end, err := d.around(off, len(p))
	err = errors.Join(d.failed(), err)
	if err != nil {
		return err
	}

	if end-start != int64(len(p)) {
		b := make([]byte, end-start)
		if err := d.read(b, start); err != nil {
			return err
		}
		copy(b[off-start:], p)
		p = b
	}

	d.dirty = true
	if _, err := d.d.WriteAt(p, start); err != nil {
		d.err = fmt.Errorf("write %d bytes at offset %d: %w", len(p), start, err)
		return d.err
	}

	return nil
}

func (d *disk) sync() error {
	if err := d.failed(); err != nil || !d.dirty {
		return err
	}
	d.dirty = false
	if err := d.d.Sync(); err != nil {
		d.err = fmt.Errorf("flush: %w", err)
	}
	return d.err
}

func (d *disk) failed() error {
	if d.err == nil {
		return nil
	}
	return fmt.Errorf("not written, after: %w", d.err)
}
