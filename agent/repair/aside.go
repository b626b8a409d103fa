package repair

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/fat"
)

// reserve is what stays free on the ESP: the next upgrade needs it.
const reserve = 256 << 20

// errNoRoom says that a copy of the partition does not fit on the ESP.
var errNoRoom = errors.New("no room on the ESP for a copy of the state partition")

// errPlainESP says that a copy of the partition would not be encrypted.
var errPlainESP = errors.New("the state is encrypted, and the ESP is not")

// keepAside copies the partition to the ESP. It is packed twice, first to learn
// its size: a file of the ESP appears complete, or not at all.
func (r Runner) keepAside(v *View) {
	err := r.copyAside()
	if err != nil {
		v.Record.Kept = ""
		r.Log.Warn("keep a copy of the state partition", zap.Error(err))
		v.Record.Problem = hint.Line(err)
		return
	}
	v.Record.Kept = "/" + AsideName + " on the ESP"
}

func (r Runner) copyAside() error {
	if r.Encrypted {
		return errPlainESP
	}

	var room int64
	err := WithESP(r.ESP, func(esp *fat.FS) error {
		room = esp.Free() - reserve
		return nil
	})
	if err != nil {
		return err
	}

	counted := &counter{limit: room}
	if err := r.pack(counted); err != nil {
		return err
	}

	out, w := io.Pipe()
	go func() { w.CloseWithError(r.pack(w)) }()
	defer out.Close()
	return r.write(AsideName, out, counted.size)
}

// pack writes the partition, packed. Equal content gives equal bytes.
func (r Runner) pack(w io.Writer) error {
	device, err := os.Open(r.Device)
	if err != nil {
		return err
	}
	defer device.Close()

	packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	_, err = io.Copy(packed, device)
	return errors.Join(err, packed.Close())
}

// counter counts what is written to it, up to a limit.
type counter struct{ size, limit int64 }

// Write implements [io.Writer].
func (c *counter) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	if c.size > c.limit {
		return 0, errNoRoom
	}
	return len(p), nil
}

// mark makes the next boot format the partition. The mark comes first: with it
// and without a superblock the partition is one to be formatted.
func mark(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("mark the state partition: %w", err)
	}
	defer f.Close()

	_, err = f.WriteAt([]byte(ext4.FormatMark), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.WriteAt(make([]byte, ext4.SuperblockOffset), ext4.SuperblockOffset)
	}
	if err := errors.Join(err, f.Sync()); err != nil {
		return fmt.Errorf("mark the state partition %s: %w", device, err)
	}
	return nil
}
