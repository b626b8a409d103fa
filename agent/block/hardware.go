package block

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/loam-os/loam/firmware/loadoption"
)

// Hardware returns the way to a disk from the root of PCI, in the words of the
// firmware's boot options ([loadoption.Location]). It is shorter if sysfs does
// not say where on its controller the disk is, and nil if the disk is not on
// PCI.
func Hardware(root fs.FS, name string) (way []string) {
	device := path.Join("sys/block", target(root, name))
	below := ""
	parts := strings.Split(device, "/")
	for i, p := range parts {
		if !function.MatchString(p) {
			continue
		}

		number := p[strings.LastIndex(p, ":")+1:] // such as 1f.2
		dev, errDev := strconv.ParseUint(number[:2], 16, 8)
		fn, errFn := strconv.ParseUint(number[3:], 16, 8)
		if errDev != nil || errFn != nil {
			return nil
		}

		way = append(way, loadoption.PCI(byte(dev), byte(fn)))
		below = strings.Join(parts[i+1:], "/")
	}

	if way == nil {
		return nil
	}

	above := strings.TrimSuffix(device, below)
	if namespace.MatchString(below) {
		if n := number(root, device, "nsid"); n > 0 {
			way = append(way, loadoption.NVMe(int(n)))
		}
	} else if m := ata.FindStringSubmatch(below); m != nil {
		// Linux counts the ports from 1.
		port := number(root, path.Join(above, m[1], "ata_port", m[1]), "port_no")
		if port > 0 && m[2] == "0" {
			way = append(way, loadoption.SATA(int(port)-1))
		}
	} else if m := scsi.FindStringSubmatch(below); m != nil {
		id, _ := strconv.Atoi(m[4])
		lun, _ := strconv.Atoi(m[5])
		way = append(way, loadoption.SCSI(id, lun))
	}

	return way
}
