package networkd_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/agent/status"
)

func TestJudge(t *testing.T) {
	link := func(admin, oper, carrier string, addresses ...string) []networkd.Link {
		return []networkd.Link{{
			Index:     2,
			Name:      "enp3s0",
			File:      "10-loam-lan.network",
			Admin:     admin,
			Oper:      oper,
			Carrier:   carrier,
			Addresses: addresses,
		}}
	}

	lan := network.Files{
		"10-loam-lan.network": "[Match]\nProperty=ID_NET_DRIVER=igb\n\n" +
			"[Network]\n",
		network.Default: "",
	}

	for _, test := range []struct {
		name  string
		files network.Files
		links []networkd.Link
		want  []string
	}{
		{"all is well", lan, link("configured", "routable", "carrier", "192.0.2.10/24"), nil},
		{
			"no cable",
			lan,
			link("configuring", "no-carrier", "no-carrier"),
			[]string{"enp3s0 (lan): no carrier: nothing is at the other end, or it is off"},
		},
		{
			"half of a bond",
			lan,
			link("configured", "routable", "degraded-carrier", "192.0.2.10/24"),
			[]string{"enp3s0 (lan): not all that it is made of has a carrier"},
		},
		{
			"no answer",
			lan,
			link("configuring", "degraded", "carrier"),
			[]string{"enp3s0 (lan): it has no address yet"},
		},
		{"a port on its way", lan, link("configuring", "enslaved", "carrier"), nil},
		{
			"networkd gave up",
			lan,
			link("failed", "off", "off"),
			[]string{"enp3s0 (lan): systemd-networkd could not set it up (`loam logs " +
				"systemd-networkd`)"},
		},
		{"it is down", lan, link("configured", "off", "off"), []string{"enp3s0 (lan): it is down"}},
		{
			"no such NIC",
			lan,
			nil,
			[]string{"lan: this machine has no such NIC, or another entry means it: Property=ID_NET_DRIVER=igb"},
		},
		{
			"a bond that the kernel does not know",
			network.Files{
				"10-loam-b.network": "[Match]\nName=b\n",
				"10-loam-b.netdev":  "[NetDev]\n",
			},
			nil,
			[]string{"b: it could not be made (`loam logs systemd-networkd`)"},
		},
		{
			"the image's own file",
			nil,
			[]networkd.Link{{
				Name:    "enp3s0",
				File:    network.Default,
				Admin:   "configuring",
				Oper:    "degraded",
				Carrier: "carrier",
			}},
			[]string{"enp3s0: it has no address yet"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			diff := cmp.Diff(test.want, networkd.Judge(test.files, test.links).Problems)
			if diff != "" {
				t.Errorf("Judge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	const links = "run/systemd/netif/links/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		links + "1": file("ADMIN_STATE=unmanaged\nOPER_STATE=carrier\n"),
		links + "2": file("ADMIN_STATE=configured\nOPER_STATE=routable\n" +
			"CARRIER_STATE=carrier\n" +
			"NETWORK_FILE=/run/loam/network/72474c754a48/10-loam-lan.network\n"),
		links + "7": file("ADMIN_STATE=configured\n" +
			"NETWORK_FILE=/usr/lib/systemd/network/80-loam-ethernet.network\n"),
		links + ".#2x":               file("ADMIN_STATE=configured\nNETWORK_FILE=/a\n"),
		"run/systemd/netif/leases/2": file("ADDRESS=192.0.2.10\nHOSTNAME=Node-7\n"),
		"run/systemd/netif/leases/3": file("ADDRESS=192.0.2.11\n"),
	}

	addressed := func(index int) (string, []string) {
		return map[int]string{2: "enp3s0"}[index], []string{"192.0.2.10/24"} // 7 has gone.
	}

	want := []networkd.Link{{
		Index:     2,
		Name:      "enp3s0",
		File:      "10-loam-lan.network",
		Admin:     "configured",
		Oper:      "routable",
		Carrier:   "carrier",
		Addresses: []string{"192.0.2.10/24"},
	}}
	if diff := cmp.Diff(want, networkd.Observe(root, addressed)); diff != "" {
		t.Errorf("Observe (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff([]string{"Node-7"}, networkd.Hostnames(root)); diff != "" {
		t.Errorf("Hostnames (-want +got):\n%s", diff)
	}

	s := networkd.Judge(nil, networkd.Observe(fstest.MapFS{}, addressed))
	if !s.Alike(&status.Network{}) {
		t.Errorf("before networkd: %+v", s)
	}
}
