package pxe

import (
	"fmt"
	"strings"
)

// ScriptPath is where iPXE finds what to do, after the server's URL.
const ScriptPath = "/v1/ipxe"

// FilesPath has the files of the builds, which anyone may have.
const FilesPath = "/v1/boot/"

// askScript has iPXE send a second request that describes the machine: the
// architecture is in the words of its setting buildarch, netX is the network
// device that it used last, and uuid is SMBIOS's.
const askScript = "#!ipxe\nchain %s" + ScriptPath + "?arch=${buildarch}&mac=${netX/mac}" +
	"&uuid=${uuid}\n"

// buildarch are iPXE's names of architectures. It is i386 also on a processor
// of 64 bits that it was started on by a BIOS.
var buildarch = map[string]string{"x86_64": "amd64", "i386": "amd64", "arm64": "arm64"}

// Script is what iPXE of an architecture does, "" if it did not say which.
func (o Offers) Script(arch string, installed bool) string {
	build, ok := o.Builds[buildarch[arch]]
	switch {
	case arch == "":
		return fmt.Sprintf(askScript, o.URL)
	case installed:
		return "#!ipxe\necho This machine is installed: it boots from its disk\nexit\n"
	case !ok:
		return fmt.Sprintf("#!ipxe\necho %s has no build for this machine\nsleep 10\n"+
			"exit 1\n", o.URL)
	}

	// A kernel that is started as a program of UEFI finds the initramfs by its
	// name on the command line.
	var s strings.Builder
	fmt.Fprintf(&s, "#!ipxe\necho %s from %s\n", build, o.URL)
	fmt.Fprintf(&s, "kernel %s/%s initrd=%s %s loam.server=%s\n",
		o.URL, build.Path(kernel), initrd, build.manifest.LiveCmdline, o.URL)
	fmt.Fprintf(&s, "initrd --name %s %s/%s\nboot\n", initrd, o.URL, build.Path(initrd))

	return s.String()
}
