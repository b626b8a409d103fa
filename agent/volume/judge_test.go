package volume

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// formatters are the commands that make each format; %s is the disk, a file.
// Commands that are not in the tools tree run only where they are installed.
var formatters = []struct {
	name, command string
	elsewhere     bool
	input         string
}{
	{name: "ext2", command: "mke2fs -q -F -t ext2 %s"},
	{name: "ext3", command: "mke2fs -q -F -t ext3 %s"},
	{name: "ext4", command: "mke2fs -q -F -t ext4 %s"},
	{name: "ext4", command: "mke2fs -q -F -t ext4 -b 1024 %s"},
	{name: "jbd", command: "mke2fs -q -F -O journal_dev %s"},
	{name: "gpt", command: "sfdisk -q %s", input: "label: gpt\n,100M\n"},
	{name: "gpt", command: "sfdisk -q --sector-size 4096 %s", input: "label: gpt\n,100M\n"},
	{name: "dos", command: "sfdisk -q %s", input: "label: dos\n,100M\n"},
	{name: "sgi", command: "sfdisk -q %s", input: "label: sgi\n,100M\n"},
	{name: "sun", command: "sfdisk -q %s", input: "label: sun\n,100M\n"},
	{
		name:    "DM_verity_hash",
		command: "veritysetup format testdata/libblkid.txt %s --data-blocks 1",
	},
	{name: "btrfs", command: "mkfs.btrfs -q %s"},
	{
		name:    "crypto_LUKS",
		command: "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 %s -",
		input:   "secret",
	},
	{
		name: "crypto_LUKS",
		command: "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 " +
			"--pbkdf-force-iterations 1000 %s -",
		input: "secret",
	},
	{name: "swap", command: "mkswap -q %s"},
	{name: "swap", command: "mkswap -q -p 65536 %s"},
	{name: "vfat", command: "mkfs.fat -F 32 %s"},
	{name: "vfat", command: "mkfs.fat -F 32 -S 4096 %s"},
	{name: "vfat", command: "mkfs.fat -F 16 %s"},
	{name: "squashfs", command: "mksquashfs testdata %s -noappend -quiet"},
	{name: "erofs", command: "mkfs.erofs %s testdata"},
	{name: "xfs", command: "mkfs.xfs -q %s"},
	{name: "ntfs", command: "mkntfs -F -Q -s 512 -p 0 -H 16 -S 63 %s"},
	{name: "exfat", command: "mkfs.exfat %s"},
	{name: "udf", command: "mkudffs %s"},
	{name: "udf", command: "mkudffs -b 4096 %s"},
	{name: "f2fs", command: "mkfs.f2fs -q %s"},

	{name: "jfs", command: "mkfs.jfs -q %s", elsewhere: true},
	{name: "reiserfs", command: "mkreiserfs -q -f -f %s", elsewhere: true},
	{name: "nilfs2", command: "mkfs.nilfs2 -f %s", elsewhere: true},
	{name: "gfs2", command: "mkfs.gfs2 -O -p lock_nolock %s", elsewhere: true},
	{name: "ocfs2", command: "mkfs.ocfs2 -F -x -M local -q %s", elsewhere: true},
	{name: "bcache", command: "make-bcache -B %s", elsewhere: true},
	{name: "minix", command: "mkfs.minix %s", elsewhere: true},
	{name: "bfs", command: "mkfs.bfs %s", elsewhere: true},
	{name: "cramfs", command: "mkfs.cramfs testdata %s", elsewhere: true},
}

// TestFormatsOfRealToolsAreFound: by name, by blkid as well, and still after the
// start, or the whole first MiB, was overwritten with zeros, if the format has
// copies.
func TestFormatsOfRealToolsAreFound(t *testing.T) {
	for _, f := range formatters {
		t.Run(f.command, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk")
			create(t, path, 600*mib)
			args := strings.Fields(fmt.Sprintf(f.command, path))
			if f.elsewhere {
				if _, err := exec.LookPath(args[0]); err != nil {
					t.Skip(err)
				}
			}

			if slices.Contains(args, "--sector-size") &&
				!strings.Contains(judge.Run(t, "sfdisk", "--help"), "--sector-size") {
				judge.Lacking(t, "sfdisk is too old")
			}

			command := exec.Command(judge.Find(t, args[0]), args[1:]...)
			command.Stdin = strings.NewReader(f.input)
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}

			err := os.Truncate(path, 600*mib)
			if err != nil { // Some cut the file to what they need,
				t.Fatal(err)
			}

			file, err := os.OpenFile(path, os.O_RDWR, 0) // or make another.
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()

			got := ReadContent(file, 600*mib)
			if !got.has(f.name) {
				t.Errorf("found %v", got)
			}
			if err := agrees(t, path, got); err != nil {
				t.Error(err)
			}
			if _, err := file.WriteAt(make([]byte, mib), 0); err != nil {
				t.Fatal(err)
			}

			t.Logf("%v; without its first MiB: %v", got, ReadContent(file, 600*mib))
		})
	}
}

func create(t *testing.T, path string, size int64) *os.File {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })

	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}

	return file
}

// agrees asks blkid, too: what it finds must be among the evidence.
func agrees(t *testing.T, path string, got Content) error {
	t.Helper()
	out, err := exec.Command(judge.Find(t, "blkid"), "--probe", "--output", "export", path).Output()
	const nothing, several = 2, 8
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
	case asExit(err, &exit) && exit.ExitCode() == nothing:
		return nil
	case asExit(err, &exit) && exit.ExitCode() == several:
		if len(got.Evidence) == 0 {
			return fmt.Errorf("blkid knows several things, we nothing")
		}
		return nil
	default:
		return err
	}

	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "TYPE" && key != "PTTYPE" {
			continue
		}
		known := func(e Evidence) bool { return slices.Contains(related(value), e.Name) }
		if !slices.ContainsFunc(got.Evidence, known) {
			return fmt.Errorf("blkid knows %s, we %v", value, got)
		}
	}

	return nil
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*exit = e
	return ok
}

// TestBlkidKnowsNothingThatWeDoNot shows blkid generated disks.
func TestBlkidKnowsNothingThatWeDoNot(t *testing.T) {
	judge.Find(t, "blkid")
	m := &maker{Rand: rand.New(rand.NewPCG(7, 2026)), facts: facts(t, "libblkid.txt", "copies.txt")}
	path := filepath.Join(t.TempDir(), "disk")
	for range judge.Pick(60, 200) {
		d := m.disk(0, pick(m, 2*gib, 50*gib, 100*gib), Data)
		file := create(t, path, d.disk.Size)
		for n, b := range d.bytes.sectors {
			if _, err := file.WriteAt(b[:], n*512); err != nil {
				t.Fatal(err)
			}
		}

		if err := agrees(t, path, ReadContent(file, d.disk.Size)); err != nil {
			t.Errorf("%s: %v", d.kind, err)
		}

		file.Close()
	}
}
