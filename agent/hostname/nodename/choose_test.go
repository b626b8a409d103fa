package nodename

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/test/files"
)

func TestNameOfAMachine(t *testing.T) {
	const net = "sys/class/net/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	nic := func(into fstest.MapFS, name, mac, assigned string, hardware bool) {
		into[net+name+"/address"], into[net+name+"/addr_assign_type"] = file(mac), file(assigned)
		if hardware {
			into[net+name+"/device/vendor"] = file("0x1af4")
		}
	}

	for _, test := range []struct {
		name, serial, tree string
		networkd           bool
		want               string
	}{
		{"by its serial number", "S3Z8NB0K", "", false, "loam-s3z8nb0k"},
		{
			"by the serial number of its device tree",
			"",
			"10000000abcd\x00",
			false,
			"loam-10000000abcd",
		},
		{"of a board without one, before networkd knows the NICs", "Default string", "", false, ""},
		{"of a board without one", "Default string", "", true, "loam-525400123456"},
		{"without firmware that says", "", "", true, "loam-525400123456"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{}
			nic(root, "enp4s0", "52:54:00:12:34:57", "0", true)
			nic(root, "enp3s0", "52:54:00:12:34:56", "0", true)
			nic(root, "bond0", "02:00:00:00:00:01", "3", false)
			nic(root, "random0", "02:00:00:00:00:02", "1", true)
			nic(root, "lo", "00:00:00:00:00:00", "0", false)
			if test.serial != "" {
				root["sys/class/dmi/id/product_serial"] = file(test.serial)
			}
			if test.tree != "" {
				root["sys/firmware/devicetree/base/serial-number"] = &fstest.MapFile{
					Data: []byte(test.tree),
				}
			}
			if test.networkd {
				root["run/systemd/netif/state"] = file("OPER_STATE=routable")
			}
			if got := fromMachine(root); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// A name that no server will ever give is a mistake, unless the node has it already.
func TestANameOfDHCPNeedsAnInterfaceThatAsks(t *testing.T) {
	static := network.Interface{Name: "lan"}
	asks := network.Interface{Name: "lan", DHCP4: true}
	for _, test := range []struct {
		name, recorded string
		interfaces     []network.Interface
		want           string
		refused        bool
	}{
		{"any network", "", nil, "", false},
		{"one that asks", "", []network.Interface{static, asks}, "", false},
		{"none that asks", "", []network.Interface{static}, "", true},
		{"none that asks any more", "node-7", []network.Interface{static}, "node-7", false},
	} {
		root := files.Root(t)
		if test.recorded != "" {
			err := errors.Join(root.MkdirAll(filepath.Dir(boot.HostnameFile), 0o755),
				root.WriteFile(boot.HostnameFile, []byte(test.recorded+"\n"), 0o644))
			if err != nil {
				t.Fatal(err)
			}
		}

		m := machine.Machine{HostnameFrom: machine.FromDHCP}
		m.Network.Interfaces = test.interfaces
		got, err := Choose(m, root)
		if got != test.want || (err != nil) != test.refused {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}
