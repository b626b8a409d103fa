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
			want:    FileSystem{Type: "vfat"},
		},
		{
			name:    "an ISO 9660 image without other names",
			command: "xorriso -as mkisofs -quiet -volid CIDATA -o %s .",
			want:    FileSystem{"iso9660", "CIDATA"},
		},
		{
			name: "an ISO 9660 image with an MBR",
			command: "xorriso -as mkisofs -quiet -joliet -volid config-2 " +
				"-partition_offset 16 -o %s .",
			want: FileSystem{"iso9660", "config-2"},
		},
		{
			name:    "an ISO 9660 image without a label",
			command: "xorriso -as mkisofs -quiet -o %s .",
			want:    FileSystem{"iso9660", "ISOIMAGE"},
		},
		{name: "ext2", command: "mke2fs -q -L LOAM %s", size: 32 << 20},
		{name: "ext4", command: "mke2fs -q -t ext4 -L cidata %s", size: 32 << 20},
		{name: "exFAT", command: "mkfs.exfat -L LOAM %s", size: 32 << 20},
		{
			name:    "NTFS",
			command: "mkntfs -F -Q -s 512 -p 0 -H 16 -S 63 -L LOAM %s",
			size:    32 << 20,
		},
		{name: "XFS", command: "mkfs.xfs -q -L LOAM %s", size: 512 << 20},
		{name: "UDF", command: "mkudffs --utf8 -l LOAM %s", size: 32 << 20},
		{name: "swap", command: "mkswap -q -L LOAM %s", size: 32 << 20},
		{name: "nothing", command: "truncate -s 1M %s"},
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
			if found := blkid(t, file); found != test.want {
				t.Errorf("blkid finds %v, want %v", found, test.want)
			}
		})
	}
}

// A boot record may come before the primary volume descriptor.
func TestVolumeDescriptorsAreInAnyOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drive")
	judge.Run(t, "xorriso", "-as", "mkisofs", "-quiet", "-volid", "cidata", "-o", file, ".")
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	sector := func(n int) []byte { return image[n*2048:][:2048] }
	copy(sector(18), sector(17)) // the end
	copy(sector(17), sector(16))
	clear(sector(16))
	copy(sector(16), "\x00CD001\x01")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}

	want := FileSystem{"iso9660", "cidata"}
	got, err := Identify(bytes.NewReader(image))
	if err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if found := blkid(t, file); found != want {
		t.Errorf("blkid finds %v, want %v", found, want)
	}

	clear(sector(17))
	if got, err := Identify(bytes.NewReader(image)); err != nil || got != (FileSystem{}) {
		t.Errorf("without a primary descriptor: %v, %v", got, err)
	}
}

// Windows and macOS rename a volume in its root directory only.
func TestARenamedVolumeHasItsNewLabel(t *testing.T) {
	boot := append(bootSector(false), make([]byte, 3*512)...)
	root := boot[2*512:]
	copy(root[0:], "\xe5EMOVED    \x08")
	copy(root[32:], "long name  \x0f")
	copy(root[64:], "LOAM       \x08")

	got, err := Identify(bytes.NewReader(boot))
	if err != nil || got != (FileSystem{"vfat", "LOAM"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// bootSector returns the boot sector of a small FAT12 or FAT32: 512 bytes a
// sector, 1 a cluster, 1 reserved, 1 FAT of 1 sector.
func bootSector(fat32 bool) []byte {
	boot := make([]byte, 512)
	copy(boot[11:], []byte{0, 2, 1, 1, 0, 1, 16, 0, 64, 0, 0xf8, 1, 0})
	copy(boot[38:], ")\x01\x02\x03\x04OLD        FAT12   ")
	if fat32 {
		copy(boot[17:], []byte{0, 0, 64, 0, 0xf8, 0, 0})
		copy(boot[36:], []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0})
		clear(boot[48:54])
		copy(boot[66:], ")\x01\x02\x03\x04OLD        FAT32   ")
	}
	copy(boot[510:], []byte{0x55, 0xaa})
	return boot
}

func FuzzIdentify(f *testing.F) {
	f.Add([]byte("\xebX\x90mkfs.fat"))
	f.Add(bootSector(false))
	f.Add(bootSector(true)[11:])
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Identify(bytes.NewReader(data))
		if err != nil || (got.Type == "" && got.Label != "") {
			t.Errorf("%v, %v", got, err)
		}

		// What follows a boot sector, and its fields, lead nowhere else.
		for _, boot := range [][]byte{bootSector(false), bootSector(true)} {
			copy(boot[11:54], data)
			drive := append(boot, data...)
			if _, err := Identify(bytes.NewReader(drive)); err != nil {
				t.Error(err)
			}
		}
	})
}
