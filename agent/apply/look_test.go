package apply_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

// opens are the opens of files in directories, as inotify(7) tells of them.
type opens struct{ *os.File }

// opensBeneath watches a directory and all in it.
func opensBeneath(t *testing.T, dir string) opens {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}

	o := opens{os.NewFile(uintptr(fd), "inotify")}
	t.Cleanup(func() { o.Close() })

	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_, err = unix.InotifyAddWatch(fd, name, unix.IN_OPEN)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return o
}

// files are the names of the files opened since the last time.
func (o opens) files(t *testing.T) []string {
	t.Helper()
	buffer := make([]byte, 1<<20)

	conn, err := o.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}

	n := 0
	err = conn.Control(func(fd uintptr) {
		n, err = unix.Read(int(fd), buffer)
		if errors.Is(err, unix.EAGAIN) {
			n = 0
			err = nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for event := buffer[:n]; len(event) > 0; {
		mask := binary.NativeEndian.Uint32(event[4:])
		length := binary.NativeEndian.Uint32(event[12:])
		if mask&unix.IN_ISDIR == 0 {
			names = append(names, strings.TrimRight(string(event[16:16+length]), "\x00"))
		}
		event = event[16+length:]
	}

	return names
}

// TestLookingAtManagedPathsReadsNoContentOfTheStore: after each change the
// agent has all paths looked at, and a kubelet of 80 MB is not to be read for
// that.
func TestLookingAtManagedPathsReadsNoContentOfTheStore(t *testing.T) {
	n, _ := fakeNode(t)
	var steps []durable.Step
	e := n.executor(t, func(s durable.Step) error { steps = append(steps, s); return nil })
	for _, d := range []string{"one\n", "two\n"} {
		c := first()
		c.Files = append(c.Files,
			config.File{Path: "/opt/bin/kubelet", Mode: 0o755, Content: config.Text(d)},
			config.File{
				Path:    "/etc/kubernetes/manifests/a.yaml",
				Mode:    0o600,
				Content: config.Text(d),
			},
		)

		mustApply(t, e, c)
		accept(t, e)

		m, _, err := e.Current()
		if err != nil {
			t.Fatal(err)
		}

		store := opensBeneath(t, filepath.Join(n.root.Name(), generation.Dir, "store"))
		node := opensBeneath(t, filepath.Join(n.root.Name(), "etc"))
		steps = nil

		if did, err := e.Repair(t.Context(), generation.Paths(m), nil); err != nil || len(did) > 0 {
			t.Errorf("repaired %v: %v", did, err)
		}
		if names := store.files(t); len(names) > 0 {
			t.Errorf("it opened of the store: %v", names)
		}
		if names := node.files(t); !slices.Equal(names, []string{"a.yaml"}) {
			t.Errorf("it opened in /etc, where this is no link: %v", names)
		}
		if len(steps) > 0 {
			t.Errorf("it wrote: %v", steps)
		}

		var done, all int64
		v, err := e.Verify(t.Context(), nil, false, func(nowDone, nowAll int64) {
			if nowDone < done || (all != 0 && nowAll != all) {
				t.Errorf("%d of %d after %d of %d", nowDone, nowAll, done, all)
			}
			done, all = nowDone, nowAll
		})
		if done == 0 || done != all || done != v.Bytes {
			t.Errorf("%d of %d, read %d", done, all, v.Bytes)
		}
		if err != nil || len(v.Bad) > 0 || len(store.files(t)) == 0 {
			t.Errorf("opens of the store are not seen, or what was opened is bad: %+v %v", v, err)
		}
	}
}
