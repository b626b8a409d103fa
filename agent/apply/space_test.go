package apply_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/units"
)

// spaceVariable is the empty directory that the part of the test in a mount
// namespace of its own mounts a small file system on.
const spaceVariable = "LOAM_SPACE_DIR"

// TestNoRoom applies to a state file system that is full, out of inodes and
// read-only in turn: a clear error, the node as it was, and the apply works
// once there is room.
func TestNoRoom(t *testing.T) {
	dir := os.Getenv(spaceVariable)
	if dir != "" {
		noRoom(t, dir)
		return
	}

	if os.Getuid() != 0 {
		judge.Lacking(t, "needs root, to mount")
	}

	cmd := exec.Command("unshare", "--mount", "--propagation", "private", os.Args[0],
		"-test.run=^TestNoRoom$", "-test.v")
	cmd.Env = append(os.Environ(), spaceVariable+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func noRoom(t *testing.T, dir string) {
	remount := func(options string, flags uintptr) {
		t.Helper()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}

	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,nr_inodes=400"); err != nil {
		t.Fatal(err)
	}

	defer unix.Unmount(dir, unix.MNT_DETACH)
	for _, sub := range []string{"root", "image"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}

	image, err := os.OpenRoot(filepath.Join(dir, "image"))
	if err != nil {
		t.Fatal(err)
	}

	fake := &units.Fake{Texts: units.Files(root.Name(), image.Name())}
	n := newNode(root, image, fake)
	e := n.executor(t, nil)
	old := filesOf("/etc/a", "old", "/var/real", "old")
	mustApply(t, e, old)
	accept(t, e)

	large := filesOf("/etc/a", "new", "/var/real", "new")
	large.Files = append(large.Files,
		config.File{
			Path:    "/etc/large",
			Mode:    0o600,
			Content: config.Text(strings.Repeat("x", 1<<20)),
		})

	many := filesOf("/etc/a", "new", "/var/real", "new")
	for i := range 100 {
		many.Files = append(many.Files,
			config.File{
				Path:    "/etc/many/" + string(rune('a'+i%26)) + strings.Repeat("b", i),
				Mode:    0o600,
				Content: config.Text(strings.Repeat("y", i)),
			})
	}

	tests := []struct {
		name       string
		take, give func()
		want       config.Desired
		errno      error
	}{
		{
			name:  "a full file system",
			want:  large,
			errno: unix.ENOSPC,
			take:  func() { remount("size=512k,nr_inodes=400", 0) },
			give:  func() { remount("size=4m,nr_inodes=400", 0) },
		}, {
			name:  "no inodes left",
			want:  many,
			errno: unix.ENOSPC,
			take:  func() { remount("size=4m,nr_inodes=90", 0) },
			give:  func() { remount("size=4m,nr_inodes=900", 0) },
		}, {
			name:  "a read-only file system",
			want:  filesOf("/etc/a", "newer", "/var/real", "newer"),
			errno: unix.EROFS,
			take:  func() { remount("", unix.MS_RDONLY) },
			give:  func() { remount("size=4m,nr_inodes=900", 0) },
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, _, err := e.Current()
			if err != nil {
				t.Fatal(err)
			}

			tt.take()
			_, err = e.Apply(t.Context(), request(tt.want))
			if !errors.Is(err, tt.errno) {
				t.Errorf("apply: %v", err)
			}

			t.Log(err)
			if after, _, err := e.Current(); err != nil || after.Name() != before.Name() {
				t.Errorf("the node runs %s, was %s: %v", after.Name(), before.Name(), err)
			}
			if v, err := e.Verify(t.Context(), nil, false, nil); err != nil || len(v.Bad) > 0 {
				t.Errorf("afterwards: %+v %v", v, err)
			}

			tt.give()
			if _, err := e.Resume(t.Context()); err != nil {
				t.Errorf("resume: %v", err)
			}

			mustApply(t, e, tt.want)
			accept(t, e)

			if got := read(t, n, "var/real"); !strings.HasPrefix(got, "new") {
				t.Errorf("with room again: %q", got)
			}

			mustApply(t, e, old)
			accept(t, e)
		})
	}

	remount("size=4m,nr_inodes=2000", 0)
	// The verdict is a few records. Whichever of them has no room, the change stays
	// on trial and gets its verdict later.
	for _, inodes := range []bool{false, true} {
		t.Run(fmt.Sprintf("a verdict without room, inodes %t", inodes), func(t *testing.T) {
			name := mustApply(t, e, large)
			pods := filepath.Join(dir, "pods")
			fill(t, pods, inodes)
			verdict, err := e.Judge(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, refused := e.Conclude(t.Context(), verdict)
			if refused != nil && !errors.Is(refused, unix.ENOSPC) {
				t.Errorf("conclude: %v", refused)
			}

			if err := os.RemoveAll(pods); err != nil {
				t.Fatal(err)
			}
			if refused != nil {
				accept(t, e)
			}
			if m, _, err := e.Current(); err != nil || m.Name() != name {
				t.Errorf("the node runs %s, want %s: %v", m.Name(), name, err)
			}
			if _, pending, err := e.Pending(); err != nil || pending {
				t.Errorf("still on trial: %t, %v", pending, err)
			}
			mustApply(t, e, old)
			accept(t, e)
		})
	}

	t.Run("many changes before a verdict", func(t *testing.T) {
		remount("size=4m,nr_inodes=2000", 0)
		for i := range 40 {
			var d config.Desired
			for j := range 60 {
				file := config.File{
					Path:    fmt.Sprintf("/etc/series/%d", j),
					Mode:    0o600,
					Content: config.Text(fmt.Sprint(i, j)),
				}
				d.Files = append(d.Files, file)
			}
			mustApply(t, e, d)
		}
	})
}

// fill takes all inodes of a file system, or all bytes, with files in dir.
func fill(t *testing.T, dir string, inodes bool) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		var data []byte
		if !inodes {
			data = make([]byte, 4096)
		}
		err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), data, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
