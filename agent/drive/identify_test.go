package drive

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// TestIdentifiesWhatToolsMake has real tools make drives: xorriso as
// virt-install and Proxmox call it, mkfs.fat for all sizes of FAT.
func TestIdentifiesWhatToolsMake(t *testing.T) {
	for _, test := range []struct {
		name, command string
		size          int64
		want          FileSystem
	}{
		{
			name:    "an ISO 9660 image",
			command: "xorriso -as mkisofs -quiet -rational-rock -joliet -volid cidata -o %s .",
			want:    FileSystem{"iso9660", "cidata"},
		},
		{
			name:    "FAT12",
			command: "mkfs.fat -F 12 -n LOAM %s",
			size:    4 << 20,
			want:    FileSystem{"vfat", "LOAM"},
		},
		{
			name:    "FAT16",
			command: "mkfs.fat -F 16 -n CIDATA %s",
			size:    32 << 20,
			want:    FileSystem{"vfat", "CIDATA"},
		},
		{
			name:    "FAT32",
			command: "mkfs.fat -F 32 -n LOAM %s",
			size:    64 << 20,
			want:    FileSystem{"vfat", "LOAM"},
		},
		{
			name:    "FAT32 for sectors of 4096 bytes",
			command: "mkfs.fat -F 32 -S 4096 -n LOAM %s",
			size:    512 << 20,
			want:    FileSystem{"vfat", "LOAM"},
		},
		{
			name:    "a FAT without a label",
			command: "mkfs.fat %s",
			size:    32 << 20,
			want:    FileSystem{"vfat", "NO NAME"},
		},
		{name: "another file system", command: "mke2fs -q -L LOAM %s", size: 32 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "drive")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, test.size); err != nil {
				t.Fatal(err)
			}

			words := strings.Fields(strings.Replace(test.command, "%s", file, 1))
			judge.Run(t, words[0], words[1:]...)

			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()

			if got, err := Identify(f); err != nil || got != test.want {
				t.Errorf("Identify: %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

// Windows and macOS rename a volume in its root directory only.
func TestARenamedVolumeHasItsNewLabel(t *testing.T) {
	boot := make([]byte, 4*512)

	// 512 bytes a sector, 1 a cluster, 1 reserved, 1 FAT, 16 root entries
	copy(boot[11:], []byte{0, 2, 1, 1, 0, 1, 16, 0})
	boot[22] = 1 // sectors of a FAT
	copy(boot[43:], "OLD        FAT12   ")
	copy(boot[510:], []byte{0x55, 0xaa})
	root := boot[2*512:]
	copy(root[0:], "\xe5EMOVED    \x08")
	copy(root[32:], "long name  \x0f")
	copy(root[64:], "LOAM       \x08")

	got, err := Identify(bytes.NewReader(boot))
	if err != nil || got != (FileSystem{"vfat", "LOAM"}) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzIdentify(f *testing.F) {
	f.Add([]byte("\xebX\x90mkfs.fat"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Identify(bytes.NewReader(data))
		if err != nil || got.Type == "" && got.Label != "" {
			t.Errorf("%v, %v", got, err)
		}

		// The fields of a boot sector, whatever they are, lead nowhere else.
		boot := append(bytes.Repeat([]byte{0xff}, 54), "FAT16   "...)
		boot = append(append(append(boot, make([]byte, 510-len(boot))...), 0x55, 0xaa), data...)
		copy(boot[11:min(54, 11+len(data))], data)
		if got, err := Identify(bytes.NewReader(boot)); err != nil || got.Type != "vfat" {
			t.Errorf("%v, %v", got, err)
		}
	})
}
