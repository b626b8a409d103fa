package mount

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/files"
)

// fakeSystem has mounts in the kernel's order. It does not unmount a busy
// mount, nor a mount that another one is on or covers.
type fakeSystem struct {
	points, busy []string
}

func (f *fakeSystem) Table() (Table, error) {
	var table Table
	for _, point := range f.points {
		table = append(table, Mount{Device: "0:1", Point: point})
	}
	return table, nil
}

func (f *fakeSystem) Unmount(_ context.Context, point string) error {
	at := slices.Index(f.points, point)
	for _, later := range f.points[at+1:] {
		if strings.HasPrefix(later, point+"/") || strings.HasPrefix(point, later+"/") {
			return unix.EBUSY
		}
	}
	if slices.Contains(f.busy, point) {
		return unix.EBUSY
	}
	f.points = slices.Delete(f.points, at, at+1)
	return nil
}

func TestUnmountBelow(t *testing.T) {
	for _, tt := range []struct {
		name               string
		points, busy, left []string
	}{
		{
			name:   "all mounts beneath the directory go",
			points: []string{"/d", "/d/a", "/d/a/b"},
			left:   []string{"/d"},
		},
		{
			name:   "a busy mount stays, with the mount that it is on",
			points: []string{"/d", "/d/a", "/d/a/b", "/d/c"},
			busy:   []string{"/d/a/b"},
			left:   []string{"/d", "/d/a", "/d/a/b"},
		},
		{
			name:   "a mount that was covered goes in a second round",
			points: []string{"/d/a/b/c", "/d/a"},
			left:   []string{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			system := &fakeSystem{points: slices.Clone(tt.points), busy: tt.busy}

			err := UnmountBelow(t.Context(), system, "/d")
			if (err != nil) != (len(tt.busy) > 0) {
				t.Errorf("UnmountBelow: %v", err)
			}
			if diff := cmp.Diff(tt.left, system.points); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEmptyEntersNoMount runs itself in a mount namespace of its own.
func TestEmptyEntersNoMount(t *testing.T) {
	if os.Getenv("LOAM_TEST_EMPTY") == "" {
		args := []string{
			"--mount", "--propagation", "private", os.Args[0], "-test.run=^" + t.Name() + "$",
			"-test.v",
		}
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
		files.Write(t, filepath.Join(dir, name), "x")
	}
	files.Write(t, filepath.Join(outside, "data"), "of the network")
	point := filepath.Join(dir, "pods/a/bound")

	err := errors.Join(os.Symlink(outside, filepath.Join(dir, "link")), os.Mkdir(point, 0o755))
	if err != nil {
		t.Fatal(err)
	}

	// A bind mount is on the same device as the directory around it.
	if err := unix.Mount(outside, point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(point, "data"))
	if err != nil {
		t.Fatal(err)
	}

	if err := UnmountBelow(t.Context(), Kernel{}, dir); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("unmount a mount in use: %v", err)
	}
	if err := Empty(dir); !errors.Is(err, ErrMounted) || !strings.Contains(err.Error(), point) {
		t.Errorf("with a mount that stays: %v", err)
	}

	diff := cmp.Diff(
		[]string{"pods", "pods/a", "pods/a/bound", "pods/a/bound/data"}, files.Names(t, dir),
	)
	if diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}

	err = errors.Join(held.Close(), UnmountBelow(t.Context(), Kernel{}, dir), Empty(dir))
	if err != nil {
		t.Error(err)
	}
	if left := files.Names(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := os.Stat(filepath.Join(outside, "data")); err != nil {
		t.Error(err)
	}
	if err := Empty(filepath.Join(dir, "absent")); err != nil {
		t.Error(err)
	}
}

func TestEmptyFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	files.Write(t, filepath.Join(dir, "away/sub/file"), "of the node")
	if err := os.Symlink("away", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"link", "link/sub"} {
		if err := Empty(filepath.Join(dir, name)); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "away/sub/file")); err != nil {
		t.Error(err)
	}
}
