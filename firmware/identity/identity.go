// Package identity reads how the firmware identifies the machine. root is the
// root directory. A value is "" if the firmware does not have it.
package identity

import (
	"io/fs"
	"strings"
)

// Serial is the serial number: in SMBIOS that of the system, in a device tree of
// its root. The tree is not read by the name that /proc has for it, a link that
// starts at / and leads out of an os.Root.
func Serial(root fs.FS) string {
	if serial := read(root, "sys/class/dmi/id/product_serial"); serial != "" {
		return serial
	}
	return read(root, "sys/firmware/devicetree/base/serial-number")
}

// UUID is the SMBIOS system UUID, in lower case.
func UUID(root fs.FS) string { return strings.ToLower(read(root, "sys/class/dmi/id/product_uuid")) }

// read reads a file without the newline of sysfs or the zero byte of a device
// tree.
func read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(text), " \n\x00")
}
