package generation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
)

func TestOnDemand(t *testing.T) {
	const wanted = "[Install]\nWantedBy=multi-user.target\n"
	timer := own("a.timer", "")
	path := own("a.path", "")
	socket := own("a.socket", "")
	service := own("a.service", "")
	asked := service
	asked.Command = config.CommandStart
	stopped := timer
	stopped.Command = config.CommandStop

	tests := []struct {
		name             string
		units            []config.Unit
		vendor           Vendor
		demand, bySocket bool
	}{
		{"nothing starts it", []config.Unit{service}, Vendor{}, false, false},
		{"a timer", []config.Unit{service, timer}, Vendor{}, true, false},
		{"a path", []config.Unit{service, path}, Vendor{}, true, false},
		{"a socket", []config.Unit{service, socket}, Vendor{}, true, true},
		{"a socket, and a timer", []config.Unit{service, socket, timer}, Vendor{}, true, false},
		{
			"a timer, and [Install]",
			[]config.Unit{own("a.service", wanted), timer},
			Vendor{},
			true,
			false,
		},
		{
			"a socket, and [Install]",
			[]config.Unit{own("a.service", wanted), socket},
			Vendor{},
			true,
			false,
		},
		{"a timer, and a command", []config.Unit{asked, timer}, Vendor{}, true, false},
		{"a socket, and a command", []config.Unit{asked, socket}, Vendor{}, true, false},
		{
			"a timer, disabled itself",
			[]config.Unit{disabled(service), timer},
			Vendor{},
			true,
			false,
		},
		{
			"a timer, disabled, with a command",
			[]config.Unit{disabled(asked), timer},
			Vendor{},
			true,
			false,
		},
		{
			"a timer that is disabled",
			[]config.Unit{service, disabled(timer)},
			Vendor{},
			false,
			false,
		},
		{"a timer that is stopped", []config.Unit{service, stopped}, Vendor{}, false, false},
		{
			"a timer of another name",
			[]config.Unit{service, own("b.timer", "[Timer]\nUnit=a.service\n")},
			Vendor{},
			true,
			false,
		},
		{
			"a timer of another name, with a specifier",
			[]config.Unit{service, own("b-a.timer", "[Timer]\nUnit=%j.service\n")},
			Vendor{},
			true,
			false,
		},
		{
			"a timer of that name, for another unit",
			[]config.Unit{service, own("a.timer", "[Timer]\nUnit=b.service\n")},
			Vendor{},
			false,
			false,
		},
		{
			"a timer, by an alias",
			[]config.Unit{own("a.service", "[Install]\nAlias=b.service\n"), own("b.timer", "")},
			Vendor{},
			true,
			false,
		},
		{
			"a socket of the image that it enables",
			[]config.Unit{service},
			Vendor{
				Texts: map[string]string{"b.socket": "[Socket]\nService=a.service\n"},
				Links: []string{"sockets.target.wants/b.socket"},
			},
			true,
			true,
		},
		{
			"a timer of the image that it does not enable",
			[]config.Unit{service},
			Vendor{Texts: map[string]string{"a.timer": ""}},
			false,
			false,
		},
		{
			"a timer of the image that is disabled",
			[]config.Unit{service, disabled(config.Unit{Name: "a.timer"})},
			Vendor{
				Texts: map[string]string{"a.timer": ""},
				Links: []string{"timers.target.wants/a.timer"},
			},
			false,
			false,
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Expand(config.Desired{Units: tt.units}, tt.vendor)
			if err != nil {
				t.Fatal(err)
			}

			u := tree.Units[slices.IndexFunc(tree.Units, func(u Unit) bool {
				return u.Name == "a.service"
			})]
			if u.OnDemand != tt.demand || u.BySocket != tt.bySocket {
				t.Errorf("on demand %v, by a socket alone %v", u.OnDemand, u.BySocket)
			}
		})
	}
}

func TestEssential(t *testing.T) {
	const requires = "[Unit]\nRequires="
	tests := []struct {
		name   string
		units  []config.Unit
		vendor Vendor
		want   []string
	}{
		{"neither", []config.Unit{own("a.service", "")}, Vendor{}, nil},
		{
			"both, and another",
			[]config.Unit{
				own("kubelet.service", ""), own("containerd.service", ""), own("a.service", ""),
			},
			Vendor{},
			[]string{"containerd.service", "kubelet.service"},
		},
		{
			"what the kubelet requires, and what that is bound to",
			[]config.Unit{
				own("kubelet.service", requires+"a.service\n"),
				own("a.service", "[Unit]\nBindsTo=b.mount\n"), own("b.mount", ""),
			},
			Vendor{},
			[]string{"a.service", "b.mount", "kubelet.service"},
		},
		{
			"after a line that ends in an escaped backslash, and in quotes",
			[]config.Unit{
				own("kubelet.service", "[Unit]\nDescription=a\\\\\nRequires=\"a.service\"\nRequires=\n"),
				own("a.service", ""),
			},
			Vendor{},
			[]string{"a.service", "kubelet.service"},
		},
		{
			"what only wants or orders itself",
			[]config.Unit{
				own("kubelet.service", "[Unit]\nWants=a.service\nAfter=b.service\n"),
				own("a.service", ""), own("b.service", requires+"kubelet.service\n"),
			},
			Vendor{},
			[]string{"kubelet.service"},
		},
		{
			"by a drop-in",
			[]config.Unit{
				{
					Name:    "kubelet.service",
					Content: new(string),
					DropIns: []config.DropIn{{Name: "1.conf", Content: requires + "a.service\n"}},
				},
				own("a.service", ""),
			},
			Vendor{},
			[]string{"a.service", "kubelet.service"},
		},
		{
			"by a drop-in of a prefix of the name",
			[]config.Unit{
				{Name: "kubelet.service", Content: new("[Unit]\nRequires=a-b.service\n")},
				own("a-b.service", ""), own("b.service", ""),
				disabled(config.Unit{
					Name:    "a-.service",
					DropIns: []config.DropIn{{Name: "1.conf", Content: requires + "b.service\n"}},
				}),
			},
			Vendor{},
			[]string{"a-b.service", "b.service", "kubelet.service"},
		},
		{
			"by a drop-in of a prefix of an instance's name, unless the template has one of that name",
			[]config.Unit{
				{Name: "kubelet.service", Content: new("[Unit]\nRequires=a-b@1.service\n")},
				own("a-b@1.service", ""), own("c.service", ""), own("d.service", ""),
				disabled(config.Unit{
					Name: "a-.service",
					DropIns: []config.DropIn{
						{Name: "1.conf", Content: requires + "c.service\n"},
						{Name: "2.conf", Content: requires + "d.service\n"},
					},
				}),
				disabled(config.Unit{
					Name:    "a-b@.service",
					DropIns: []config.DropIn{{Name: "1.conf", Content: ""}},
				}),
			},
			Vendor{},
			[]string{"a-b@1.service", "d.service", "kubelet.service"},
		},
		{
			"by RequiredBy",
			[]config.Unit{
				own("kubelet.service", ""),
				own("a.service", "[Install]\nRequiredBy=kubelet.service\n"),
			},
			Vendor{},
			[]string{"a.service", "kubelet.service"},
		},
		{
			"by an alias",
			[]config.Unit{
				own("kubelet.service", requires+"b.service\n"),
				own("a.service", "[Install]\nAlias=b.service\n"),
			},
			Vendor{},
			[]string{"a.service", "kubelet.service"},
		},
		{
			"through a unit of the image",
			[]config.Unit{{Name: "containerd.service"}, own("a.service", "")},
			Vendor{Texts: map[string]string{"containerd.service": requires + "a.service\n"}},
			[]string{"a.service", "containerd.service"},
		},
		{
			"a circle",
			[]config.Unit{
				own("kubelet.service", requires+"a.service\n"),
				own("a.service", requires+"kubelet.service\n"),
			},
			Vendor{},
			[]string{"a.service", "kubelet.service"},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Expand(config.Desired{Units: tt.units}, tt.vendor)
			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for _, u := range tree.Units {
				if u.Essential {
					got = append(got, u.Name)
				}
			}

			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("essential (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReloads(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                 false,
		"[Unit]\nX-ReloadIfChanged=true\n": true,
		"[Unit]\nX-ReloadIfChanged=Y\n":    true,
		"[Unit]\nDescription=a\\\\\nX-ReloadIfChanged=on\n":     true,
		"[Unit]\rX-ReloadIfChanged=yes\r":                       true,
		"[Unit]\nX-ReloadIfChanged=yes\nX-ReloadIfChanged=\n":   false,
		"[Unit]\nX-ReloadIfChanged=yes\nX-ReloadIfChanged=no\n": false,
		"[Service]\nX-ReloadIfChanged=yes\n":                    false,
		"[Unit]\nDescription=a \\\nX-ReloadIfChanged=yes\n":     false,
	} {
		tree, err := Expand(config.Desired{Units: []config.Unit{own("a.service", text)}}, Vendor{})
		if err != nil {
			t.Fatal(err)
		}
		if tree.Units[0].Reloads != want {
			t.Errorf("%q: reloads %t", text, !want)
		}
	}
}
