// Package block reads what sysfs says about block devices
// (Documentation/ABI/stable/sysfs-block). List is the only scanner of the disks
// of a machine. Its callers say which kinds of devices they have no use for.
//
//	/sys/class/block --List(except)--> []Disk: Kind, size, serial, paths
//	                                     |
//	             boot, volume and drive add what is on the disk
//	                                     |
//	                          Handle: read, write, sync one device
package block

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Number reads the number in the file called name in the directory dir, such as
// "size" in /sys/block/vda.
func Number(dir, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Node returns the device node of the device that sysfs calls name.
func Node(name string) string { return "/dev/" + strings.ReplaceAll(name, "!", "/") }

// Partitions returns the device nodes of a disk's partitions by partition
// number, as the kernel has them now. dir is the disk's directory.
func Partitions(dir string) map[int]string {
	nodes := map[int]string{}
	found, _ := filepath.Glob(filepath.Join(dir, "*", "partition"))
	for _, f := range found {
		if n, err := Number(filepath.Dir(f), "partition"); err == nil {
			nodes[int(n)] = Node(filepath.Base(filepath.Dir(f)))
		}
	}
	return nodes
}
