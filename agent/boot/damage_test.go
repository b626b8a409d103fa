package boot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/test/judge"
)

// stateImage is a file system like the state partition's.
func stateImage(t *testing.T) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "state")
	judge.Run(t, "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-L", partitions.StateLabel, "-O",
		"metadata_csum,metadata_csum_seed,64bit,quota,project", name, "256M")

	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestDamageOfAStatePartitionIsRecognized(t *testing.T) {
	const superblock = ext4.SuperblockOffset
	write := func(f *os.File, at int64, data []byte) error {
		_, err := f.WriteAt(data, at)
		return err
	}

	for _, tt := range []struct {
		name   string
		damage func(f *os.File) error
		want   Filesystem
		errors bool
	}{
		{
			name:   "a file system",
			damage: func(*os.File) error { return nil },
			want:   FilesystemExt4,
		},
		{
			name: "one in which the kernel has found errors",
			damage: func(f *os.File) error {
				judge.Run(t, "debugfs", "-w", "-R", "set_super_value state 2", f.Name())
				return nil
			},
			want:   FilesystemExt4,
			errors: true,
		},
		{
			name:   "the same, and a power cut has corrupted the superblock",
			damage: func(f *os.File) error { return write(f, superblock+0x3a, []byte{2}) },
			want:   FilesystemCorrupt,
			errors: true,
		},
		{
			name:   "its superblock is overwritten with garbage",
			damage: func(f *os.File) error { return write(f, 0, bytes.Repeat([]byte{0xa5}, 4096)) },
			want:   FilesystemDamaged,
		},
		{
			name:   "its first MiB is overwritten with zeros",
			damage: func(f *os.File) error { return write(f, 0, make([]byte, blankProbe)) },
			want:   FilesystemDamaged,
		},
		{
			name: "its superblock and the copy are damaged",
			damage: func(f *os.File) error {
				return errors.Join(write(f, superblock+0x68, make([]byte, 16)),
					write(f, 128*mib, make([]byte, 4096)))
			},
			want: FilesystemDamaged,
		},
		{
			name: "neither superblock nor copy is left",
			damage: func(f *os.File) error {
				return errors.Join(write(f, superblock, bytes.Repeat([]byte{0xa5}, 1024)),
					write(f, 128*mib, make([]byte, 4096)))
			},
			want: FilesystemOther,
		},
		{
			name: "it is to be formatted, although a copy is left",
			damage: func(f *os.File) error {
				return errors.Join(write(f, superblock, make([]byte, 1024)),
					write(f, 0, []byte(ext4.FormatMark)))
			},
			want: FilesystemEmpty,
		},
		{
			name:   "nothing",
			damage: func(f *os.File) error { return errors.Join(f.Truncate(0), f.Truncate(256*mib)) },
			want:   FilesystemEmpty,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := stateImage(t)
			if err := tt.damage(f); err != nil {
				t.Fatal(err)
			}

			c := ObserveState(f)
			if c.Filesystem != tt.want || c.Errors != tt.errors {
				t.Errorf("%+v, want %s, errors %v", c, tt.want, tt.errors)
			}
		})
	}
}

func TestAStateThatCannotBeReadIsDamaged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(dir string, image *os.File) error
		want   string
	}{
		{
			name:   "a state that is well",
			damage: func(string, *os.File) error { return nil },
		},
		{
			name: "the machine ID cannot be read",
			damage: func(dir string, _ *os.File) error {
				return os.MkdirAll(filepath.Join(dir, "lib/loam/machine-id"), 0o755)
			},
			want: "is a directory",
		},
		{
			name: "the directory is something else",
			damage: func(dir string, _ *os.File) error {
				return errors.Join(os.Mkdir(filepath.Join(dir, "lib"), 0o755),
					os.WriteFile(filepath.Join(dir, "lib/loam"), nil, 0o644))
			},
			want: "not a directory",
		},
		{
			name: "the mount has found errors",
			damage: func(_ string, image *os.File) error {
				judge.Run(t, "debugfs", "-w", "-R", "set_super_value state 2", image.Name())
				return nil
			},
			want: "the kernel has found errors",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			image := stateImage(t)
			if err := tt.damage(dir, image); err != nil {
				t.Fatal(err)
			}

			err := probeState(image.Name(), dir)
			if tt.want == "" && err != nil {
				t.Errorf("error %v", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestOnlyADamagedStateStartsTheRepair(t *testing.T) {
	run := t.TempDir()
	if err := startRepair(run); err != nil {
		t.Fatal(err)
	}

	link := filepath.Join(run, "systemd/system/sysinit.target.wants/loam-repair.service")
	target, err := os.Readlink(link)
	if err != nil || target != "/usr/lib/systemd/system/loam-repair.service" {
		t.Errorf("link %s -> %s, %v", link, target, err)
	}
}
