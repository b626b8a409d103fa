package node

import (
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
)

// TestTheFirstDriveStays plugs a stranger's drive into a node that has had its
// machine.yaml from a drive: while it runs, and before it starts, with the
// node's own drive and without.
func TestTheFirstDriveStays(t *testing.T) {
	matrix(t)
	b := open(t)
	yaml := machineYAML(b.manifest.Arch, "")
	stranger := strings.Replace(yaml, "hostname: hello", "hostname: stranger", 1)

	m := b.flash(t, b.file(".raw"))
	own := m.fat("LOAM", "machine.yaml", yaml)
	drives := m.config.Arguments
	m.fat("CIDATA", "machine.yaml", stranger)
	blocks := m.config.Arguments[len(drives):]

	attached := func(names ...string) {
		m.config.Arguments = append(append([]string{}, drives...), blocks...)
		for _, name := range names {
			m.arguments("-device", "virtio-blk-pci,drive="+name+",serial=S-"+name)
		}
		// A root port can be plugged into while the machine runs.
		m.arguments("-device", "pcie-root-port,id=root-port,chassis=9")
	}
	plug := func(n *node) {
		t.Helper()
		err := n.Command("device_add", map[string]any{
			"driver": "virtio-blk-pci", "bus": "root-port", "id": "late", "drive": "CIDATA",
			"serial": "S-CIDATA",
		})
		if err != nil {
			t.Fatal(err)
		}
		n.sh("until test -e /sys/block/vdc; do sleep 0.2; done; udevadm settle")
	}
	agent := "systemctl show -P NRestarts loam-agent.service; pidof -s loam"

	attached(own)
	n := m.on(t, nil)
	n.shell()
	n.says(func(s status.Status) bool { return s.Machine == "machine.yaml of drive /dev/vdb (LOAM)" })
	before := n.sh(agent)
	plug(n)
	n.want(agent, before)
	n.want("hostname", "hello")
	n.off()

	for _, test := range []struct {
		name    string
		present []string
		machine string
	}{
		{"both", []string{"CIDATA", own}, "machine.yaml of drive /dev/vdc (LOAM)"},
		{"the stranger's alone", []string{"CIDATA"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			attached(test.present...)
			n := m.on(t, nil)
			n.expect(verifiedLine)
			if test.machine == "" {
				n.expect(regexp.MustCompile(`ignored drive /dev/vdb \(CIDATA\): `))
				n.pressPowerButton() // Nothing opens a shell.
				return
			}
			n.shell()
			n.says(func(s status.Status) bool {
				return s.Machine == test.machine && s.Hostname == "hello" &&
					len(s.Warnings) > 0 && strings.HasPrefix(s.Warnings[0],
					"ignored drive /dev/vdb (CIDATA): ")
			})
			n.off()
		})
	}

	// The node is still itself.
	attached(own)
	n = m.on(t, nil)
	n.shell()
	n.want("hostname", "hello")
	n.off()
}
