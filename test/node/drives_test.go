package node

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
)

// TestTheFirstDriveStays plugs a stranger's drive into a node that was configured by a
// drive: while it runs, and before it starts, with the node's own drive and without. The
// node goes on with its copy, also when somebody writes to its own drive.
func TestTheFirstDriveStays(t *testing.T) {
	matrix(t)
	b := open(t)
	yaml := machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n")
	stranger := strings.Replace(yaml, "hostname: hello", "hostname: stranger", 1)
	config := map[string]string{"loam.config": string(readFile(t, "../../examples/hello.yaml"))}

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
	const machine = "machine.yaml of drive /dev/vdb (LOAM)"

	attached(own)
	n := m.on(t, config)
	n.applied()
	n.shell()
	n.says(func(s status.Status) bool { return s.Machine == machine })
	before := n.sh(agent)
	plug(n)
	n.want(agent, before)
	n.want("hostname", "hello")
	n.off()

	m.tool("mcopy", "-o", "-i", filepath.Join(m.config.Dir, "LOAM.img.fat"),
		m.file("stranger.yaml", stranger), "::machine.yaml")
	for _, test := range []struct {
		name    string
		present []string
	}{
		{"both", []string{"CIDATA", own}},
		{"the stranger's alone", []string{"CIDATA"}},
		{"its own, edited", []string{own}},
		{"none", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			attached(test.present...)
			n := m.on(t, config)
			n.expect(verifiedLine)
			n.shell()
			n.says(func(s status.Status) bool {
				return s.Machine == machine+", kept copy" && s.Hostname == "hello" &&
					s.Phase == status.Applied && len(s.Warnings) == 0
			})
			n.off()
		})
	}
}
