package volume

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

func TestMake(t *testing.T) {
	judge.Find(t, "mke2fs")
	const size = 300 * mib
	path := filepath.Join(t.TempDir(), "disk")
	disk := create(t, path, size)
	maker := Maker{
		For: Data,
		Open: func(node string) (Writable, error) {
			f, err := os.OpenFile(node, os.O_RDWR, 0)
			return diskFile{f}, err
		},
		Run: func(ctx context.Context, command []string) error {
			return exec.CommandContext(ctx, command[0], command[1:]...).Run()
		},
		Scratch: t.TempDir(),
	}

	choice := Choice{Action: ToFormat, Device: path, Size: size}
	if err := maker.Make(t.Context(), choice, "ext4", 512, nil); err != nil {
		t.Fatal(err)
	}

	got := ReadContent(disk, size)
	if got.FileSystem != "ext4" || got.Used != size {
		t.Errorf("made %+v", got)
	}

	judge.Run(t, "e2fsck", "-f", "-n", path)
	err := maker.Make(t.Context(), choice, "ext4", 512, nil)
	if err == nil || !strings.Contains(err.Error(), "no longer empty: ext4 at byte 1080") {
		t.Errorf("a disk that has come into use since: %v", err)
	}

	choice.Size += mib
	if err := maker.Make(t.Context(), choice, "ext4", 512, nil); err == nil ||
		!strings.Contains(err.Error(), "it has 314572800 bytes") {
		t.Errorf("another disk by the same name: %v", err)
	}

	choice.Action = ToUse
	if err := maker.Make(t.Context(), choice, "ext4", 512, nil); err == nil {
		t.Error("a volume was formatted")
	}
	if left, _ := os.ReadDir(maker.Scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
