package install

import (
	"bytes"
	"io"
	"runtime"

	"github.com/loam-os/loam/agent/flash"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/partitions/gpt"
)

// Observe reads the facts of all disks. It reports the disk except, which the
// system comes from, as in use; "" if none.
func Observe(m volume.Machine, except string) (Facts, error) {
	disks, err := volume.Observe(m)
	f := Facts{Arch: runtime.GOARCH}
	for _, d := range disks {
		if d.Device == except {
			d.Uses = append(d.Uses, "the system comes from it")
		}
		f.Disks = append(f.Disks, observe(m, d))
	}
	return f, err
}

// observe reads what volume.ReadContent does not need. A disk that cannot be
// read has evidence of that.
func observe(m volume.Machine, d volume.Disk) Candidate {
	device, err := m.Open(d.Device, false)
	if err != nil {
		return Candidate{Disk: d}
	}
	defer device.Close()
	return examine(device, d)
}

func examine(device io.ReaderAt, d volume.Disk) Candidate {
	out := Candidate{Disk: d, Marked: marked(device)}
	if table, err := gpt.Read(device, d.Size, d.SectorSize); err == nil {
		out.Table = &table
	}
	return out
}

func marked(device io.ReaderAt) bool {
	start := make([]byte, 4096)
	n, _ := device.ReadAt(start, 0)
	return bytes.HasPrefix(start[:n], []byte(flash.Mark))
}
