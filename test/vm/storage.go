package vm

import (
	"fmt"
	"path/filepath"
	"slices"
)

// buses are what a disk may hang on: controllers, then the disk. Firmware has
// no number for an SD card.
var buses = map[string][]string{
	"":            {"virtio-blk-pci,drive=disk,bootindex=1"},
	"virtio-scsi": {"virtio-scsi-pci,id=bus", "scsi-hd,bus=bus.0,drive=disk,bootindex=1"},
	"nvme":        {"nvme,serial=loam,drive=disk,bootindex=1"},
	"ahci":        {"ahci,id=bus", "ide-hd,bus=bus.0,drive=disk,bootindex=1"},
	"usb":         {"qemu-xhci,id=bus", "usb-storage,bus=bus.0,drive=disk,bootindex=1"},
	"uas":         {"qemu-xhci,id=usb", "usb-uas,id=bus,bus=usb.0", "scsi-hd,bus=bus.0,drive=disk"},
	"sd":          {"sdhci-pci", "sd-card,drive=disk"},
}

func (c Config) storage() []string {
	if c.Disk == "" {
		return nil
	}

	format := "raw"
	if filepath.Ext(c.Disk) == ".qcow2" {
		format = "qcow2"
	}

	if c.Log != "" {
		return []string{
			"-blockdev", "driver=file,node-name=file,filename=" + c.Disk, "-blockdev",
			"driver=" + format + ",node-name=image,file=file",
			"-blockdev", "driver=file,node-name=log,filename=" + c.Log,
			"-blockdev",
			"driver=blklogwrites,node-name=logged,file=image,log=log,log-sector-size=512",
			"-device", "virtio-blk-pci,drive=logged,bootindex=1,discard=off,write-zeroes=off",
		}
	}

	args := []string{
		"-drive", fmt.Sprintf("if=none,id=disk,format=%s,file=%s,cache=unsafe,discard=unmap",
			format, c.Disk),
	}

	devices := slices.Clone(buses[c.Bus])
	if c.SectorSize > 512 {
		devices[len(devices)-1] += fmt.Sprintf(",logical_block_size=%d,physical_block_size=%[1]d",
			c.SectorSize)
	}

	for _, device := range devices {
		args = append(args, "-device", device)
	}

	return args
}
