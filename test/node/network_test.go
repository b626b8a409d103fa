package node

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/judge"
)

// twoNICs is a network of a bond of one and a VLAN on the other. MACs are
// QEMU's.
const twoNICs = `hostnameFrom: serial
network:
  interfaces:
  - {name: first, nic: {mac: "52:54:00:12:34:56", driver: virtio_net}}
  - {name: second, nic: {mac: "52:54:00:12:34:57"}, mtu: 1600}
  - {name: bond0, bond: {mode: active-backup, interfaces: [first], mac: "52:54:00:aa:bb:cc"}, dhcp4: true, ntp: [10.0.2.123]}
  - {name: storage, vlan: {id: 42, interface: second}, mtu: 1600, addresses: [192.0.2.10/24]}
`

// TestNetworkOfMachineYAML: the network is up at the first boot, and at a boot
// that cannot read the document.
func TestNetworkOfMachineYAML(t *testing.T) {
	judge.Long(t, "agent/networks_systemd_test.go, on real systemd")
	parallel(t, 3*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.config.Clock = "1970-01-01"
	m.config.Arguments = []string{
		"-netdev", "user,id=second,restrict=on", "-device",
		"virtio-net-pci,netdev=second,mac=52:54:00:12:34:57,romfile=",
		"-smbios", "type=1,serial=Plant 7/A",
	}

	good := strings.Replace(machineYAML(b.manifest.Arch, twoNICs), "hostname: hello\n", "", 1)
	t.Run("the first boot", func(t *testing.T) {
		n := m.on(t, map[string]string{"loam.machine": good})
		n.shell()
		want := &status.Network{
			From: status.NetworkOfMachine,
			Interfaces: []status.Interface{
				{
					Name:      "bond0",
					As:        "bond0",
					State:     "routable",
					Addresses: []string{"10.0.2.15/24"},
				}, {As: "first", State: "enslaved"}, {As: "second", State: "carrier"},
				{
					Name:      "storage",
					As:        "storage",
					State:     "routable",
					Addresses: []string{"192.0.2.10/24"},
				},
			},
		}

		n.says(func(s status.Status) bool {
			if s.Network == nil {
				return false
			}
			for i := range s.Network.Interfaces {
				// udev names NICs by their slots, which are QEMU's matter.
				if as := s.Network.Interfaces[i].As; as == "first" || as == "second" {
					s.Network.Interfaces[i].Name = ""
				}
			}
			return cmp.Equal(want, s.Network)
		})

		n.want("cat /sys/class/net/bond0/bonding/mode /sys/class/net/bond0/address",
			"active-backup 1\n52:54:00:aa:bb:cc")
		n.want(
			"grep -h VID: /proc/net/vlan/storage | cut -d' ' -f1-3; cat /sys/class/net/storage/mtu",
			"storage  VID:\n1600",
		)

		n.want("timedatectl show-timesync -P LinkNTPServers", "10.0.2.123")
		n.want("hostname; cat /proc/sys/kernel/hostname", "loam-plant-7-a\nloam-plant-7-a")
		n.want("built=$(uname -v | sed 's/.*(\\(.*\\))/\\1/'); test $(date +%s) -ge $(date -d "+
			"$built +%s) && echo after", "after")
		n.off()
	})

	t.Run("one with a document that is wrong", func(t *testing.T) {
		n := m.on(t,
			map[string]string{"loam.machine": strings.Replace(good, "id: 42", "id: 4095", 1)})
		n.expect(regexp.MustCompile(`network\.interfaces\[3\]\.vlan\.id: 4095`))
		n.next = 0
		n.expect(regexp.MustCompile(`host name +loam-plant-7-a`))
		n.expect(regexp.MustCompile(`network +as machine.yaml had it last`))
		n.expect(regexp.MustCompile(`bond0 routable 10\.0\.2\.15/24`))
		n.pressPowerButton()
	})
}
