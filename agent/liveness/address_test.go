package liveness_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/liveness"
)

func TestRestore(t *testing.T) {
	internal := func(ip string) liveness.Address {
		return liveness.Address{Type: "InternalIP", Address: ip}
	}

	type list = []liveness.Address
	name := liveness.Address{Type: "Hostname", Address: "nuc-01"}
	public := liveness.Address{Type: "ExternalIP", Address: "192.0.2.7"}
	local := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.5"),
		netip.MustParseAddr("fd00::5"), netip.MustParseAddr("fe80::1%eth0"),
	}

	for _, test := range []struct {
		name              string
		before, now, want list
	}{
		{
			"nothing has changed",
			list{internal("10.0.0.5"), name},
			list{internal("10.0.0.5"), name},
			nil,
		},
		{
			"the address is gone and an interface has it",
			list{internal("10.0.0.5"), name},
			list{name},
			list{internal("10.0.0.5"), name},
		},
		{
			"all addresses are gone",
			list{internal("10.0.0.5"), name},
			nil,
			list{internal("10.0.0.5")},
		},
		{
			"both of two families are put back, in their order",
			list{internal("fd00::5"), name, internal("10.0.0.5")},
			list{name},
			list{internal("fd00::5"), internal("10.0.0.5"), name},
		},
		{
			"only one of two is on an interface",
			list{internal("10.0.0.9"), internal("fd00::5")},
			list{name},
			list{internal("fd00::5"), name},
		},
		{"no interface has it any more", list{internal("10.0.0.9"), name}, list{name}, nil},
		{
			"another address came in its place",
			list{internal("10.0.0.5")},
			list{internal("10.0.0.6")},
			nil,
		},
		{
			"one of two families is left: kubelet has decided",
			list{internal("10.0.0.5"), internal("fd00::5")},
			list{internal("fd00::5")},
			nil,
		},
		{
			"other addresses stay as they are now",
			list{internal("10.0.0.5"), name},
			list{public, name},
			list{internal("10.0.0.5"), public, name},
		},
		{"there never was one", list{name}, list{name}, nil},
		{"an address that is none", list{internal("nuc-01")}, list{name}, nil},
		{
			"the same address in another spelling",
			list{internal("fd00:0::0:5")},
			nil,
			list{internal("fd00:0::0:5")},
		},
		{"a link's own address", list{internal("fe80::1")}, nil, list{internal("fe80::1")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			diff := cmp.Diff(test.want, liveness.Restore(test.before, test.now, local))
			if diff != "" {
				t.Errorf("to write (-want +got):\n%s", diff)
			}
		})
	}
}
