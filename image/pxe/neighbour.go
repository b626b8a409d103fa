package pxe

import (
	"bufio"
	"io"
	"net/netip"
	"strings"
)

// Neighbour finds the MAC of an address in the text of /proc/net/arp
// (proc_pid_net(5)): one line of headers, then address, type, flags, MAC and
// more. It returns "" for an unknown address, such as a machine behind a
// router.
func Neighbour(table io.Reader, address netip.Addr) string {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 4 && fields[0] == address.String() && fields[3] != "00:00:00:00:00:00" {
			return fields[3]
		}
	}
	return ""
}
