package mount

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// mountinfo is that of a node with pods.
const mountinfo = `22 1 254:0 / / ro,relatime shared:1 - erofs /dev/dm-0 ro
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

func TestToUnmount(t *testing.T) {
	const pod = "/var/lib/kubelet/pods/a/volumes/"
	for _, tt := range []struct {
		name, dir string
		want      []string
	}{
		{name: "nothing is beneath", dir: "/var/lib/gardener-node-agent", want: []string{}},
		{name: "a name that begins alike is not beneath", dir: "/var/lib/kubelet-", want: []string{}},
		{
			name: "the deepest first, the uppermost first, the directory itself stays", dir: "/var/lib/kubelet",
			want: []string{
				pod + "kubernetes.io~nfs/data/sub", pod + "kubernetes.io~nfs/data", pod + "kubernetes.io~projected/token",
				pod + `with blank\`, pod + `with blank\`,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ToUnmount(Points(mountinfo), tt.dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnmountBelow(t *testing.T) {
	for _, tt := range []struct {
		name       string
		have, busy []string
		left       []string
	}{
		{name: "all of it", have: []string{"/d", "/d/a", "/d/a/b"}, left: []string{"/d"}},
		{name: "what is busy stays with what it is on", have: []string{"/d", "/d/a", "/d/a/b", "/d/c"}, busy: []string{"/d/a/b"}, left: []string{"/d", "/d/a", "/d/a/b"}},
		{name: "what was hidden goes in a second round", have: []string{"/d/a/b/c", "/d/a"}, left: []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have := slices.Clone(tt.have)
			m := Mounts{
				Table: func() (string, error) {
					var text strings.Builder
					for _, p := range have {
						text.WriteString("1 1 0:1 / " + p + " rw - tmpfs tmpfs rw\n")
					}
					return text.String(), nil
				},
				Unmount: func(_ context.Context, p string) error {
					i := slices.Index(have, p)
					above := slices.ContainsFunc(have, func(other string) bool { return strings.HasPrefix(other, p+"/") && slices.Index(have, other) > i })
					hidden := slices.ContainsFunc(have, func(other string) bool { return strings.HasPrefix(p, other+"/") && slices.Index(have, other) > i })
					if above || hidden || slices.Contains(tt.busy, p) {
						return unix.EBUSY
					}
					have = slices.Delete(have, i, i+1)
					return nil
				},
			}
			err := m.Below(t.Context(), "/d")
			if diff := cmp.Diff(tt.left, have); diff != "" || (err != nil) != (len(tt.busy) > 0) {
				t.Errorf("left (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

// TestEmptyGoesIntoNoMount runs itself in a mount namespace of its own.
func TestEmptyGoesIntoNoMount(t *testing.T) {
	if os.Getenv("LOAM_TEST_EMPTY") == "" {
		args := []string{"--mount", "--propagation", "private", os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}
		if os.Getuid() != 0 {
			args = append([]string{"--map-root-user"}, args...)
		}
		cmd := exec.Command("unshare", args...)
		cmd.Env = append(os.Environ(), "LOAM_TEST_EMPTY=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{"pods/a/volume/of/the/pod", "pods/a/etc-hosts", "pki/current"} {
		writeText(t, filepath.Join(dir, name), "x")
	}
	writeText(t, filepath.Join(outside, "data"), "of the network")
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "pods/a/bound"), 0o755)); err != nil {
		t.Fatal(err)
	}
	// A bind mount is of the same device as what is around it.
	point := filepath.Join(dir, "pods/a/bound")
	if err := unix.Mount(outside, point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(point, "data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Node().Below(t.Context(), dir); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("unmount what is in use: %v", err)
	}
	if err := Empty(dir); !errors.Is(err, errMounted) || !strings.Contains(err.Error(), point) {
		t.Errorf("with a mount that stays: %v", err)
	}
	if diff := cmp.Diff([]string{"pods", "pods/a", "pods/a/bound", "pods/a/bound/data"}, treeOf(t, dir)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if err := errors.Join(held.Close(), Node().Below(t.Context(), dir), Empty(dir)); err != nil {
		t.Error(err)
	}
	if left := treeOf(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := os.Stat(filepath.Join(outside, "data")); err != nil {
		t.Error(err)
	}
	if err := Empty(filepath.Join(dir, "absent")); err != nil {
		t.Error(err)
	}
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// treeOf is all that is beneath dir.
func treeOf(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
