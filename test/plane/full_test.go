package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd/room"
	"github.com/loam-os/loam/test/judge"
)

// diskSize is the size of the file system of etcd, of which most is not used. fullWrites
// are more values than fit into what etcd has of a full disk by itself, and fewer than fit
// into its log.
const (
	diskSize   = 2 << 30
	fullWrites = 60
)

// TestEtcdWritesOnAFullDisk fills the disk while a client writes: with the room that the
// node reserves, etcd goes on, and also starts again.
func TestEtcdWritesOnAFullDisk(t *testing.T) {
	t.Parallel()
	e, keep := newEtcdOnADisk(t)
	e.mustPut(t, 1)
	reserved := keep(t)
	e.machine.fillDisk(t)

	e.mustPut(t, fullWrites)
	e.awaitInDatabase(t)
	e.machine.kill("etcd.service")
	e.machine.startEtcdAgain(t)
	e.mustPut(t, 1)
	if got := e.count(t); got != e.written {
		t.Errorf("%d values, want %d", got, e.written)
	}
	t.Logf("%d bytes were reserved", reserved)
}

// TestEtcdComesBackWhenADiskHasRoom: without the room, etcd ends on a full disk, and has all
// that it has acknowledged when it starts on a disk that is no longer full. It may have
// acknowledged what is only in its log, as it writes its database every few seconds.
func TestEtcdComesBackWhenADiskHasRoom(t *testing.T) {
	t.Parallel()
	e, keep := newEtcdOnADisk(t)
	e.mustPut(t, 1)
	e.machine.fillDisk(t)

	acknowledged := 1
	for range fullWrites {
		if e.put(t.Context()) != nil {
			break
		}
		acknowledged++
	}
	poll(t, "etcd has room that nothing has reserved: the other test shows nothing",
		func(context.Context) error {
			if e.machine.ended() == nil {
				return errors.New("etcd runs")
			}
			return nil
		})

	e.machine.freeDisk(t)
	e.machine.startEtcdAgain(t)
	if got := e.count(t); got < acknowledged {
		t.Errorf("%d values, and %d were acknowledged", got, acknowledged)
	}
	if keep(t) == 0 {
		t.Error("no room was reserved")
	}
}

// newEtcdOnADisk returns an etcd with a file system of its own, and what keeps its room,
// which returns how many bytes are reserved.
func newEtcdOnADisk(t *testing.T) (*etcdFixture, func(*testing.T) int64) {
	t.Helper()
	m := newCluster(t)
	m.mountDisk(t)
	m.renew(t)
	m.startEtcdAgain(t)
	m.prove(t)
	m.kill("etcd.service")
	m.startEtcdAgain(t)

	e := &etcdFixture{machine: m}
	client, transport := m.etcdClient(t)
	e.client = client
	t.Cleanup(transport.CloseIdleConnections)

	return e, func(t *testing.T) (reserved int64) {
		t.Helper()
		m.net.do(func() {
			keeper := room.Keeper{
				Dir:    m.disk(),
				Report: func(e room.Event) { t.Errorf("it says %+v", e) },
			}
			keeper.Look()
			root, err := os.OpenRoot(m.disk())
			if err != nil {
				t.Error(err)
				return
			}
			defer root.Close()
			d, err := room.Observe(root)
			if err != nil {
				t.Error(err)
			}
			if again, all := room.Next(d); again != nil || !all {
				t.Errorf("another look reserves %+v, all %v", again, all)
			}
			reserved = d.Reserved()
		})
		return reserved
	}
}

// startEtcdAgain starts etcd with the flags of a node.
func (m *machine) startEtcdAgain(t *testing.T) {
	t.Helper()
	m.start(t, plane.Render(m.record, m.node), "etcd.service")
}

// disk is the directory of etcd's data.
func (m *machine) disk() string { return filepath.Join(m.dir, "state") }

// mountDisk gives etcd an ext4 file system of its own, as the state partition has one. Only
// what is started by the machine sees it.
func (m *machine) mountDisk(t *testing.T) {
	t.Helper()
	image := filepath.Join(m.dir, "disk.img")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(diskSize), f.Close()); err != nil {
		t.Fatal(err)
	}
	mkfs, mount := judge.Find(t, "mke2fs"), judge.Find(t, "mount")
	if out, err := exec.Command(mkfs, "-q", "-t", "ext4", "-m", "0", image).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}

	var out []byte
	m.net.do(func() {
		err = errors.Join(
			unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		)
		if err == nil {
			out, err = exec.Command(mount, "-o", "loop", image, m.disk()).CombinedOutput()
		}
	})
	if err != nil {
		judge.Lacking(t, fmt.Errorf("mount a file system: %w\n%s", err, out))
	}
}

// fillDisk takes all room of the file system, as images and logs do.
func (m *machine) fillDisk(t *testing.T) {
	t.Helper()
	m.net.do(func() {
		f, err := os.Create(filepath.Join(m.disk(), "fill"))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		var at int64
		for size := int64(64 << 20); size >= 4096; {
			err := unix.Fallocate(int(f.Fd()), 0, at, size)
			switch {
			case err == nil:
				at += size
			case errors.Is(err, unix.ENOSPC):
				size /= 2
			default:
				t.Error(err)
				return
			}
		}
	})
}

func (m *machine) freeDisk(t *testing.T) {
	t.Helper()
	m.net.do(func() {
		if err := os.Remove(filepath.Join(m.disk(), "fill")); err != nil {
			t.Error(err)
		}
	})
}

// awaitInDatabase waits until the database has all values, which the log has before.
func (e *etcdFixture) awaitInDatabase(t *testing.T) {
	t.Helper()
	e.machine.await(t, "the database", func(ctx context.Context) error {
		s, err := e.client.Observe(ctx, nil)
		if err == nil && s.Size < int64(e.written*valueSize) {
			err = fmt.Errorf("it has %d bytes", s.Size)
		}
		return err
	})
}

// mustPut writes that many values.
func (e *etcdFixture) mustPut(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := e.put(t.Context()); err != nil {
			t.Fatalf("value %d: %v", e.written, err)
		}
	}
}
