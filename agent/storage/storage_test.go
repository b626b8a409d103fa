package storage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// usage returns a file system of 8 GiB and 500,000 inodes.
func usage(free, inodes int64) Usage {
	return Usage{
		Path:       "/var",
		Free:       free,
		Size:       8 * gib,
		FreeInodes: inodes,
		Inodes:     500_000,
	}
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name string
		now  Usage
		want fault.Code
	}{
		{"enough", usage(gib, 100_000), ""},
		{"just enough", usage(8*gib/20, 10_000), ""},
		{"few bytes", usage(8*gib/20-1, 100_000), fault.DiskNearlyFull},
		{"few inodes", usage(gib, 9_999), fault.DiskNearlyFull},
		{"hardly a byte", usage(16*mib-1, 100_000), fault.DiskFull},
		{"hardly an inode", usage(gib, 99), fault.DiskFull},
		{"nothing at all", usage(0, 0), fault.DiskFull},
		{"a file system without a limit of inodes", Usage{Path: "/var", Free: gib, Size: 2 * gib}, ""},
		{
			"a large file system with 1 GiB",
			Usage{Path: "/var", Free: gib, Size: 4096 * gib}, "",
		},
		{
			"a small file system",
			Usage{Path: "/run", Free: 2 * mib, Size: 100 * mib}, fault.DiskNearlyFull,
		},
		{"an empty file system of no size", Usage{Path: "/run"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Decide(nil, []Usage{tt.now})
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}

			if len(got) != 1 || got[0].Code != tt.want || got[0].Path != tt.now.Path ||
				got[0].Full != (tt.want == fault.DiskFull) {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
}

func TestNodeAtALimitDoesNotChangeItsMind(t *testing.T) {
	low := int64(8*gib) / 20
	var last []status.FileSystem
	for _, step := range []struct {
		free int64
		want fault.Code
	}{
		{low, ""},
		{low - 1, fault.DiskNearlyFull},
		{low, fault.DiskNearlyFull},
		{low + low/5, fault.DiskNearlyFull},
		{low + low/4, ""},
		{low, ""},
		{16*mib - 1, fault.DiskFull},
		{16 * mib, fault.DiskFull},
		{20 * mib, fault.DiskNearlyFull},
		{16 * mib, fault.DiskNearlyFull},
		{gib, ""},
	} {
		last = Decide(last, []Usage{usage(step.free, 100_000)})
		var got fault.Code
		if len(last) > 0 {
			got = last[0].Code
		}
		if got != step.want {
			t.Errorf("%d bytes free: %q, want %q", step.free, got, step.want)
		}
	}
}

func TestFewBytesAreNoNews(t *testing.T) {
	first := Decide(nil, []Usage{usage(300*mib, 100_000)})
	if again := Decide(first, []Usage{usage(299*mib, 99_990)}); !cmp.Equal(first, again) {
		t.Errorf("%+v became %+v", first, again)
	}
	if other := Decide(first, []Usage{usage(200*mib, 100_000)}); other[0].Free != 200*mib {
		t.Errorf("%+v is old", other)
	}
}

func TestTextSaysWhatIsFreeAndWhatTakesTheRoom(t *testing.T) {
	got := Decide(nil, []Usage{usage(gib, 20)})[0]
	want := "the state partition (/var) is full: 1.0 GiB of 8.0 GiB are free, and 20 of 500000 inodes"
	if got.Problem != want {
		t.Errorf("%s, want %s", got.Problem, want)
	}
	for _, part := range []string{"du -xd3 --inodes /var", "/var/lib/containerd", "/var/log/pods"} {
		if !strings.Contains(got.Hint, part) {
			t.Errorf("%s, want %s in it", got.Hint, part)
		}
	}

	memory := usage(gib, 20)
	memory.Memory = true
	if got := Decide(nil, []Usage{memory})[0]; !strings.HasPrefix(got.Problem, "the state in memory") {
		t.Errorf("in memory: %s", got.Problem)
	}

	got = Decide(nil, []Usage{usage(0, 100_000)})[0]
	if !strings.Contains(got.Hint, "du -xhd3 /var") {
		t.Errorf("hint %s", got.Hint)
	}
}

// storageVariable is set in the part of the test that has a mount namespace of
// its own.
const storageVariable = "LOAM_TEST_STORAGE"

// TestObserveFullFileSystems fills a real tmpfs, once with bytes and once with
// names.
func TestObserveFullFileSystems(t *testing.T) {
	if os.Getenv(storageVariable) == "" {
		args := []string{
			"--mount", "--propagation", "private", os.Args[0], "-test.run=^" + t.Name() + "$",
		}
		if os.Getuid() != 0 {
			args = append([]string{"--map-root-user"}, args...)
		}
		cmd := exec.Command("unshare", args...)
		cmd.Env = append(os.Environ(), storageVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}

	dir := t.TempDir()
	for _, name := range []string{"var/lib/kubelet", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{State, Run} {
		at := filepath.Join(dir, name)
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=4m,nr_inodes=1000"); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(at, unix.MNT_DETACH)
	}
	if err := os.MkdirAll(filepath.Join(dir, Kubelet), 0o755); err != nil {
		t.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	var paths []string
	usages := Observe(root)
	for _, u := range usages {
		paths = append(paths, u.Path)
	}
	if diff := cmp.Diff([]string{"/var", "/run"}, paths); diff != "" {
		t.Errorf("file systems (-want +got):\n%s", diff)
	}
	if short := Decide(nil, usages); len(short) > 0 {
		t.Errorf("empty file systems: %+v", short)
	}

	if err := os.WriteFile(filepath.Join(dir, "var/big"), make([]byte, 5*mib), 0o600); err == nil {
		t.Error("5 MiB fit into 4")
	}
	for i := range 2000 {
		name := filepath.Join(dir, Run, fmt.Sprint(i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			break
		}
	}
	short := Decide(nil, Observe(root))
	if len(short) != 2 || short[0].Free != 0 || !short[0].Full || !usages[0].Memory || short[1].FreeInodes != 0 ||
		!short[1].Full || short[1].Free == 0 {
		t.Errorf("full file systems: %+v", short)
	}
}
