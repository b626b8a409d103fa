package judge

import (
	"os"
	"path/filepath"
	"testing"
)

// TestJudgesSeeWhatTestsSee: temporary files, by names relative to the working
// directory too, the sources, and the build.
func TestJudgesSeeWhatTestsSee(t *testing.T) {
	if out := Run(t, "zstd", "--quiet", "--stdout", "../../go.mod"); out == "" {
		t.Error("no output")
	}

	t.Chdir(t.TempDir())
	Run(t, "qemu-img", "create", "-q", "-f", "raw", "disk", "1M")

	if info, err := os.Stat("disk"); err != nil || info.Size() != 1<<20 {
		t.Errorf("a file made by a judge: %v, %v", info, err)
	}

	images, err := filepath.Glob(filepath.Join(Dir(t, "LOAM_BUILD"), "*.qcow2"))
	if err != nil || len(images) != 1 {
		t.Fatalf("images of the build: %v, %v", images, err)
	}

	Run(t, "qemu-img", "info", images[0])
}
