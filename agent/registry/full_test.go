package registry

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
	"github.com/loam-os/loam/test/judge"
)

// fullVariable says that the test is in a mount namespace of its own.
const fullVariable = "LOAM_REGISTRY_FULL"

// TestAFullDiskAtEachStepOfAPull has a pod leave a little more of containerd's disk
// each time, in bytes or in inodes: a pull says that the disk is full, and goes on
// when there is room.
func TestAFullDiskAtEachStepOfAPull(t *testing.T) {
	if os.Getenv(fullVariable) != "" {
		pullOnFullDisk(t)
		return
	}
	if os.Getuid() != 0 {
		judge.Lacking(t, "needs root, to mount")
	}

	cmd := exec.Command("unshare", "--mount", "--propagation", "private", os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), fullVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// podBlock is how much more a pod leaves each time.
const podBlock = 64 << 10

func pullOnFullDisk(t *testing.T) {
	c := containerd.New(t)
	disk := filepath.Join(c.Dir, "root")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,nr_inodes=200"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	c.Run(t)

	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	provider := New(c.Socket())
	size := 300 << 10
	for _, inodes := range []bool{false, true} {
		t.Run(fmt.Sprintf("inodes %t", inodes), func(t *testing.T) {
			refused := 0
			for left := 0; ; left++ {
				size++ // The same content might be there already.
				content := large(size)
				ref := fmt.Sprintf("a/kubelet-%t:v%d", inodes, left)
				r.Push(t, ref, cluster.Image{Layers: []cluster.Layer{
					{"kubelet": {Content: content}}, {"f": text(ref)},
				}})
				ref = r.Address() + "/" + ref

				give := takeRoom(t, disk, left, inodes)
				_, err := get(t, provider, ref, "/kubelet")
				give()
				if err != nil {
					refused++
					if fault.Of(err) != fault.StateFull || hint.Of(err) == "" {
						t.Errorf("left %d: %v, code %s, hint %q", left, err, fault.Of(err), hint.Of(err))
					}
					for _, name := range names(t, provider, namespace) {
						if strings.HasSuffix(name, fmt.Sprintf("-%t:v%d", inodes, left)) {
							t.Errorf("left %d: a part of an image is there as %s", left, name)
						}
					}
				}

				got, after := get(t, provider, ref, "/kubelet")
				if after != nil || !bytes.Equal([]byte(got), content) {
					t.Fatalf("left %d: with room: %d bytes, %v", left, len(got), after)
				}
				provider.Follow(nil)
				if err := provider.Keep(t.Context(), nil); err != nil {
					t.Errorf("left %d: %v", left, err)
				}
				if err == nil {
					break
				}
			}
			if refused < 3 {
				t.Errorf("only %d pulls had no room", refused)
			}
			t.Logf("%d pulls had no room", refused)
		})
	}
}

// takeRoom fills a file system but for left blocks or inodes. It returns what
// gives the room back.
func takeRoom(t *testing.T, dir string, left int, inodes bool) (give func()) {
	t.Helper()
	pods := filepath.Join(dir, "pods")
	if err := os.Mkdir(pods, 0o700); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, podBlock)
	if inodes {
		data = nil
	}
	taken := 0
	for ; ; taken++ {
		err := os.WriteFile(filepath.Join(pods, fmt.Sprint(taken)), data, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	for i := range min(left, taken) {
		if err := os.Remove(filepath.Join(pods, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.RemoveAll(pods); err != nil {
			t.Fatal(err)
		}
	}
}
