package image

import (
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/image/qcow2"
)

// convert makes a file of a disk image.
func convert(file, raw string, write func(dst, src *os.File, size int64) error) error {
	src, err := os.Open(raw)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(dst, src, info.Size()), dst.Close())
}

func writeQcow2(dst, src *os.File, size int64) error { return qcow2.Write(dst, src, size) }

// packWindow reaches from the UKI to its copy in the recovery entry. zstd(1) unpacks up to 128 MiB without being asked to.
const packWindow = 32 << 20

// writePacked packs the disk by zstd. Measured on the cloud image of 3.4 GiB: 155 MB in 3.6 s; a window of 8 MiB makes it 169 MB, the faster
// levels 160 and 170 MB. Holes are not read, which would take three times as long.
func writePacked(dst, src *os.File, size int64) error {
	z, err := zstd.NewWriter(dst, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(packWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < size && err == nil; {
		start := size
		if data, seekErr := src.Seek(off, unix.SEEK_DATA); seekErr == nil {
			start = min(data, size)
		} else if !errors.Is(seekErr, unix.ENXIO) { // That there is no more data.
			err = seekErr
		}
		for n := int64(0); off < start && err == nil; off += n {
			n = min(start-off, int64(len(zeros)))
			_, err = z.Write(zeros[:n])
		}
		if off < size && err == nil {
			if off, err = src.Seek(start, unix.SEEK_HOLE); err == nil {
				off = min(off, size)
				_, err = io.Copy(z, io.NewSectionReader(src, start, off-start))
			}
		}
	}
	return errors.Join(err, z.Close())
}
