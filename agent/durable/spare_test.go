package durable_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/judge"
)

// spareVariable is the empty directory that the part of the test in a mount
// namespace of its own mounts a small file system on.
const spareVariable = "LOAM_SPARE_DIR"

// TestARecordFitsOnAFullDisk has other programs fill the file system that the node
// records on, its bytes or its inodes, and take at each step what was freed.
func TestARecordFitsOnAFullDisk(t *testing.T) {
	if dir := os.Getenv(spareVariable); dir != "" {
		recordsOnAFullDisk(t, dir)
		return
	}
	if os.Getuid() != 0 {
		judge.Lacking(t, "needs root, to mount")
	}

	cmd := exec.Command("unshare", "--mount", "--propagation", "private", os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), spareVariable+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func recordsOnAFullDisk(t *testing.T, dir string) {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=10m,nr_inodes=400"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	t.Run("on another file system", func(t *testing.T) { recordElsewhere(t, root) })
	large := strings.Repeat("x", 10_000)
	for _, tt := range []struct {
		name  string
		write func(d *durable.Dir) error
		want  string
	}{
		{"a file", func(d *durable.Dir) error {
			_, err := d.WriteFile("record", []byte("y"), 0o640)
			return err
		}, "y"},
		{"a file of some blocks", func(d *durable.Dir) error {
			_, err := d.WriteFile("record", []byte(large), 0o640)
			return err
		}, large},
		{"a line", func(d *durable.Dir) error {
			return d.Append("record", []byte(large), 0o640)
		}, "old\n" + large + "\n"},
		{"many records", func(d *durable.Dir) error {
			for i := range 50 {
				if _, err := d.WriteFile("record", []byte(fmt.Sprint(i)), 0o640); err != nil {
					return err
				}
			}
			return nil
		}, "49"},
	} {
		for _, inodes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, inodes %t", tt.name, inodes), func(t *testing.T) {
				if _, err := durable.New(root, nil).WriteFile("record", []byte("old\n"), 0o640); err != nil {
					t.Fatal(err)
				}
				spare := durable.NewSpare(root, "spare", 1<<20)
				if kept, err := spare.Keep(); !kept || err != nil {
					t.Fatalf("keep: %t, %v", kept, err)
				}

				pods := &pods{T: t, root: root, inodes: inodes}
				take := func(durable.Step) error { pods.take(); return nil }
				if err := tt.write(durable.New(root, take).WithSpare(spare)); err != nil {
					t.Error(err)
				}
				got, err := root.ReadFile("record")
				if err != nil || string(got) != tt.want {
					t.Errorf("%d bytes, want %d, %v", len(got), len(tt.want), err)
				}
				if info, err := root.Lstat("record"); err != nil || info.Mode() != 0o640 {
					t.Errorf("%v, %v", info, err)
				}
				select {
				case <-spare.Given():
				default:
					if !inodes || tt.name != "a line" { // It needs no inode.
						t.Error("nothing says that some of the spare is used")
					}
				}

				pods.give()
				if kept, err := spare.Keep(); !kept || err != nil {
					t.Errorf("keep again: %t, %v", kept, err)
				}
			})
		}
	}
}

// pods are programs that take all bytes, or inodes, of a file system.
type pods struct {
	*testing.T
	root   *os.Root
	inodes bool
	files  []string
}

func (p *pods) take() {
	p.Helper()
	for {
		name := fmt.Sprint("pod", len(p.files))
		f, err := p.root.Create(name)
		if err == nil {
			p.files = append(p.files, name)
			for err == nil && !p.inodes {
				_, err = f.Write(make([]byte, 4096))
			}
			f.Close()
		}
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			p.Fatal(err)
		}
	}
}

func (p *pods) give() {
	p.Helper()
	for _, name := range p.files {
		if err := p.root.Remove(name); err != nil {
			p.Fatal(err)
		}
	}
}

// TestALinkFitsOnAFullDisk gives the spare up.
func TestALinkFitsOnAFullDisk(t *testing.T) {
	root := open(t)
	spare := durable.NewSpare(root, "spare", 1<<20)
	if kept, err := spare.Keep(); !kept || err != nil {
		t.Fatalf("keep: %t, %v", kept, err)
	}
	full := func(s durable.Step) error {
		if _, err := root.Lstat("spare.0"); err == nil && s.Op == durable.Symlink {
			return &durable.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}
	if _, err := durable.New(root, full).WithSpare(spare).Symlink("x", "record"); err != nil {
		t.Error(err)
	}
	if target, err := root.Readlink("record"); err != nil || target != "x" {
		t.Errorf("%q, %v", target, err)
	}
}

// recordElsewhere writes a record to another file system than the spare's, which has
// no room for it.
func recordElsewhere(t *testing.T, root *os.Root) {
	elsewhere := open(t)
	spare := durable.NewSpare(root, "spare", 1<<20)
	if kept, err := spare.Keep(); !kept || err != nil {
		t.Fatalf("keep: %t, %v", kept, err)
	}
	full := func(s durable.Step) error {
		if s.Op == durable.Write {
			return &durable.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}
	d := durable.New(elsewhere, full).WithSpare(spare)
	if _, err := d.WriteFile("record", []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if kept, err := spare.Keep(); !kept || err != nil {
		t.Errorf("the spare is gone: %t, %v", kept, err)
	}
	if left, err := os.ReadDir(elsewhere.Name()); err != nil || len(left) != 0 {
		t.Errorf("left is %v, %v", left, err)
	}
}

// TestTheSpareOfAnEarlierVersion was one file.
func TestTheSpareOfAnEarlierVersion(t *testing.T) {
	root := open(t)
	if err := root.WriteFile("spare", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	spare := durable.NewSpare(root, "spare", 1<<20)
	if kept, err := spare.Keep(); !kept || err != nil {
		t.Fatalf("keep: %t, %v", kept, err)
	}
	if _, err := root.Lstat("spare"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	info, err := root.Lstat("spare.63")
	if err != nil || info.Size() != 1<<14 || info.Sys().(*syscall.Stat_t).Blocks*512 < 1<<14 {
		t.Errorf("a piece has no blocks: %+v, %v", info, err)
	}
}

// TestALargeFileDoesNotTakeTheSpare: it is for records.
func TestALargeFileDoesNotTakeTheSpare(t *testing.T) {
	root := open(t)
	spare := durable.NewSpare(root, "spare", 1<<20)
	if kept, err := spare.Keep(); !kept || err != nil {
		t.Fatalf("keep: %v %v", kept, err)
	}
	full := func(s durable.Step) error {
		if s.Op == durable.Write {
			return &durable.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}
	d := durable.New(root, full).WithSpare(spare)
	if err := d.WriteFrom("content", zeros{}, 0o600); err == nil {
		t.Error("there is room")
	}
	if _, err := root.Lstat("spare.0"); err != nil {
		t.Error(err)
	}
}

// TestNoSpareWhereThereIsLittleRoom asks for more than any disk has.
func TestNoSpareWhereThereIsLittleRoom(t *testing.T) {
	spare := durable.NewSpare(open(t), "spare", 1<<50)
	if kept, err := spare.Keep(); kept || err != nil {
		t.Errorf("keep: %v %v", kept, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
