package kernel_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/kernel"
)

const aliases = `# Aliases extracted from modules themselves.
alias net-pf-2-proto-132 sctp
alias net-pf-2-proto-132 sctp
alias net-pf-10-proto-132 sctp
alias net-pf-29 can
alias net-pf-35-proto-2 pn_pep
alias fs-btrfs btrfs
alias pci:v00008086d* e1000
`

const closed = "alias net-pf-* off\nalias fs-btrfs off\nalias fs-btrfs2 off\n"

func TestRules(t *testing.T) {
	const header = "# From machine.yaml. The agent writes it.\n"
	const openRing = header + "kernel.io_uring_disabled = 0\n"
	const ring, namespaces = "proc/sys/kernel/io_uring_disabled",
		"proc/sys/kernel/unprivileged_userns_clone"

	tests := map[string]struct {
		open   kernel.Opening
		before string
		want   kernel.Rules
	}{
		"nothing": {},
		"a file system": {
			open: kernel.Opening{Modules: []string{"btrfs"}},
			want: kernel.Rules{Modules: header +
				"alias net-pf-* off\nalias fs-btrfs2 off\nalias fs-btrfs btrfs\n"},
		},
		"a protocol with two aliases": {
			open: kernel.Opening{Modules: []string{"sctp"}},
			want: kernel.Rules{Modules: header + closed +
				"alias net-pf-2-proto-132 sctp\nalias net-pf-10-proto-132 sctp\n"},
		},
		"a name with a dash": {
			open: kernel.Opening{Modules: []string{"can", "pn-pep"}},
			want: kernel.Rules{Modules: header + closed +
				"alias net-pf-29 can\nalias net-pf-35-proto-2 pn_pep\n"},
		},
		"a driver": {
			open: kernel.Opening{Modules: []string{"e1000"}},
			want: kernel.Rules{Modules: header + closed, Unknown: []string{"e1000"}},
		},
		"settings": {
			open: kernel.Opening{UserNamespaces: true, IOUring: true},
			want: kernel.Rules{
				Settings: header + "kernel.unprivileged_userns_clone = 1\n" +
					"kernel.io_uring_disabled = 0\n",
				Values: map[string]string{ring: "0", namespaces: "1"},
			},
		},
		"a setting stays open": {
			open:   kernel.Opening{IOUring: true},
			before: openRing,
			want:   kernel.Rules{Settings: openRing, Values: map[string]string{ring: "0"}},
		},
		"a setting closes": {
			before: openRing,
			want:   kernel.Rules{Values: map[string]string{ring: "2"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.want.Values == nil {
				test.want.Values = map[string]string{}
			}
			have := test.open.Rules(kernel.Tables{
				Aliases: []byte(aliases),
				Closed:  []byte(closed),
				Before:  []byte(test.before),
			})
			if diff := cmp.Diff(test.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheImageCloses holds the values to close with against the image's own.
func TestTheImageCloses(t *testing.T) {
	text, err := os.ReadFile("../../mkosi/mkosi.extra/usr/lib/sysctl.d/50-loam.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []kernel.Setting{kernel.UserNamespaces, kernel.IOUring} {
		if !strings.Contains(string(text), "\n"+s.Name+" = "+s.Closed+"\n") {
			t.Errorf("the image does not set %s to %s", s.Name, s.Closed)
		}
	}
}
