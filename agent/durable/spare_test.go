package durable_test

import (
	"syscall"
	"testing"

	"github.com/loam-os/loam/agent/durable"
)

// TestARecordFitsOnAFullDisk has other programs fill the file system that the
// node records on.
func TestARecordFitsOnAFullDisk(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(d *durable.Dir) error
	}{
		{"a file", func(d *durable.Dir) error {
			_, err := d.WriteFile("record", []byte("x"), 0o600)
			return err
		}},
		{"a line", func(d *durable.Dir) error { return d.Append("record", []byte("x"), 0o600) }},
		{"a link", func(d *durable.Dir) error {
			_, err := d.Symlink("x", "record")
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := open(t)
			spare := durable.NewSpare(root, "spare", 1<<20)
			full := func(s durable.Step) error {
				_, err := root.Lstat("spare")
				if err == nil && (s.Op == durable.Write || s.Op == durable.Symlink) {
					return &durable.Fault{Err: syscall.ENOSPC}
				}
				return nil
			}
			if kept, err := spare.Keep(); !kept || err != nil {
				t.Fatalf("keep: %v %v", kept, err)
			}
			info, err := root.Stat("spare")
			if err != nil || info.Sys().(*syscall.Stat_t).Blocks*512 < 1<<20 {
				t.Fatalf("the spare has no blocks: %+v %v", info, err)
			}

			if err := tt.write(durable.New(root, full).WithSpare(spare)); err != nil {
				t.Error(err)
			}
			if _, err := root.Lstat("record"); err != nil {
				t.Error(err)
			}
			select {
			case <-spare.Given():
			default:
				t.Error("nobody is told that the spare is given up")
			}

			if kept, err := spare.Keep(); !kept || err != nil {
				t.Errorf("keep again: %v %v", kept, err)
			}
		})
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
	if _, err := root.Lstat("spare"); err != nil {
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
