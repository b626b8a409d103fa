package mount

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Table
	}{
		{name: "an empty table has no mounts"},
		{name: "a line without a mount point is skipped", text: "22 1 254:0 /\n"},
		{
			name: "a line without optional fields",
			text: "23 1 8:3 / /var rw - ext4 /dev/sda3 rw\n",
			want: Table{{
				Device:     "8:3",
				Root:       "/",
				Point:      "/var",
				FileSystem: "ext4",
				Source:     "/dev/sda3",
			}},
		},
		{
			name: "a line with several optional fields",
			text: "23 1 8:3 / /var rw shared:2 master:1 unbindable - ext4 /dev/sda3 rw,errors=continue\n",
			want: Table{{
				Device:     "8:3",
				Root:       "/",
				Point:      "/var",
				FileSystem: "ext4",
				Source:     "/dev/sda3",
			}},
		},
		{
			name: "a bind mount has the device of its origin and a root of its own",
			text: "24 1 8:3 /lib /opt rw - ext4 /dev/sda3 rw\n",
			want: Table{{
				Device:     "8:3",
				Root:       "/lib",
				Point:      "/opt",
				FileSystem: "ext4",
				Source:     "/dev/sda3",
			}},
		},
		{
			name: "a source with a space, as of a share of Windows",
			text: `25 1 0:50 / /mnt rw - cifs //server/a\040share rw` + "\n",
			want: Table{{
				Device:     "0:50",
				Root:       "/",
				Point:      "/mnt",
				FileSystem: "cifs",
				Source:     "//server/a share",
			}},
		},
		{
			name: "a mount point called - is not the separator",
			text: "26 1 0:51 / - rw - tmpfs tmpfs rw\n",
			want: Table{{
				Device:     "0:51",
				Root:       "/",
				Point:      "-",
				FileSystem: "tmpfs",
				Source:     "tmpfs",
			}},
		},
		{
			name: "an empty source",
			text: "27 1 0:52 / /mnt rw - tmpfs  rw\n",
			want: Table{{
				Device:     "0:52",
				Root:       "/",
				Point:      "/mnt",
				FileSystem: "tmpfs",
				Source:     "none",
			}},
		},
		{
			name: "a line that is cut off after the mount point",
			text: "28 1 0:53 / /mnt",
			want: Table{{Device: "0:53", Root: "/", Point: "/mnt"}},
		},
		{
			name: "a line that is cut off after the separator",
			text: "28 1 0:53 / /mnt rw shared:1 - tmpfs",
			want: Table{{Device: "0:53", Root: "/", Point: "/mnt"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Parse(tt.text)); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnescape(t *testing.T) {
	for _, tt := range []struct{ name, field, want string }{
		{name: "nothing to reverse", field: "/var/lib", want: "/var/lib"},
		{name: "a space", field: `/a\040b`, want: "/a b"},
		{name: "a tab", field: `/a\011b`, want: "/a\tb"},
		{name: "a newline", field: `/a\012b`, want: "/a\nb"},
		{name: "a backslash", field: `/a\134b`, want: `/a\b`},
		{name: "a number sign", field: `/a\043b`, want: "/a#b"},
		{
			name:  "a backslash before digits is not an escape twice",
			field: `/a\134040`,
			want:  `/a\040`,
		},
		{name: "escapes side by side", field: `\040\040`, want: "  "},
		{name: "an escape at the end", field: `/a\134`, want: `/a\`},
		{name: "two digits are left alone", field: `/a\04`, want: `/a\04`},
		{name: "digits that are not octal are left alone", field: `/a\089`, want: `/a\089`},
		{name: "more than a byte is left alone", field: `/a\400`, want: `/a\400`},
		{name: "a backslash alone is left alone", field: `\`, want: `\`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := unescape(tt.field); got != tt.want {
				t.Errorf("unescape(%q) = %q, want %q", tt.field, got, tt.want)
			}
		})
	}
}

func TestAt(t *testing.T) {
	table := Parse(nodeTable)
	if got, ok := table.At("/var/lib/kubelet"); !ok || got.Source != "/dev/nvme0n1p6" {
		t.Errorf("At the data volume: %+v, %v", got, ok)
	}
	if got, ok := table.At(blank); !ok || got.Device != "0:47" {
		t.Errorf("At a directory with two mounts: %+v, %v, want the topmost", got, ok)
	}
	if got, ok := table.At("/var/lib"); ok {
		t.Errorf("At a directory that is no mount point: %+v", got)
	}
}

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		name, dir string
		want      []string
	}{
		{name: "nothing is mounted beneath", dir: "/var/lib/gardener-node-agent"},
		{name: "a longer name is not beneath", dir: "/var/lib/kubelet-"},
		{
			name: "the deepest first, the topmost first, the directory itself stays",
			dir:  "/var/lib/kubelet",
			want: []string{
				volumes + "kubernetes.io~nfs/data/sub",
				volumes + "kubernetes.io~nfs/data",
				volumes + "kubernetes.io~projected/token",
				blank,
				blank,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Parse(nodeTable).Below(tt.dir)); diff != "" {
				t.Errorf("Below (-want +got):\n%s", diff)
			}
		})
	}
}

const (
	volumes = "/var/lib/kubelet/pods/a/volumes/"
	blank   = volumes + `with blank\`
)

// nodeTable is the mount table of a node with pods.
const nodeTable = `22 1 254:0 / / ro,relatime shared:1 - erofs /dev/dm-0 ro
30 22 259:5 /var /var rw,relatime shared:2 - ext4 /dev/nvme0n1p5 rw
41 30 259:6 / /var/lib/kubelet rw,relatime shared:3 - ext4 /dev/nvme0n1p6 rw
50 41 0:44 / /var/lib/kubelet/pods/a/volumes/kubernetes.io~projected/token rw,relatime shared:9 - tmpfs tmpfs rw,size=64k
51 41 0:45 / /var/lib/kubelet/pods/a/volumes/kubernetes.io~nfs/data rw shared:10 - nfs4 server:/export rw
52 51 0:45 /sub /var/lib/kubelet/pods/a/volumes/kubernetes.io~nfs/data/sub rw shared:11 - nfs4 server:/export rw
53 41 0:46 / /var/lib/kubelet/pods/a/volumes/with\040blank\134 rw shared:12 - tmpfs tmpfs rw
54 53 0:47 / /var/lib/kubelet/pods/a/volumes/with\040blank\134 rw shared:13 - tmpfs tmpfs rw
60 30 0:48 / /var/lib/kubelet-other rw shared:14 - tmpfs tmpfs rw
cut off
`

// FuzzParse checks that a mount point survives the kernel's escapes, whatever
// stands before and after its line.
func FuzzParse(f *testing.F) {
	f.Add(nodeTable, "/var/lib/kubelet", "/dev/sda3")
	f.Add("", `/with space, tab	, \ and #`, "")
	f.Add("1 1 0:1 / /cut - ", "-", "- -")

	f.Fuzz(func(t *testing.T, before, point, source string) {
		if point == "" || strings.ContainsRune(point+source, 0) {
			t.Skip("no mount has such a name")
		}
		line := "24 1 8:3 / " + escape(point) + " rw shared:1 - ext4 " + escape(source) + " rw\n"

		table := Parse(before + "\n" + line)
		if len(table) == 0 {
			t.Fatal("the line is not in the table")
		}
		if source == "" {
			source = "none"
		}
		want := Mount{
			Device:     "8:3",
			Root:       "/",
			Point:      point,
			FileSystem: "ext4",
			Source:     source,
		}
		if diff := cmp.Diff(want, table[len(table)-1]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
		for _, below := range table.Below(point) {
			if !strings.HasPrefix(below, point+"/") {
				t.Errorf("%q is not beneath %q", below, point)
			}
		}
	})
}

// escape writes a field as the kernel does (mangle in fs/proc_namespace.c).
func escape(field string) string {
	return strings.NewReplacer(" ",
		`\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`).Replace(field)
}
