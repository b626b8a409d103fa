// Package block reads what sysfs says about block devices
// (Documentation/ABI/stable/sysfs-block). List is the only scanner of the disks
// of a machine. Its callers say which kinds of devices they have no use for.
package block

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Number is the number in the file name of the directory dir, such as "size" of
// /sys/block/vda.
func Number(dir, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Node is the device node of a device that sysfs calls name.
func Node(name string) string { return "/dev/" + strings.ReplaceAll(name, "!", "/") }

// Partitions are the device nodes of a disk's partitions by their numbers, as
// far as the kernel has them now; dir is the disk's directory.
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
