package inspect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/qcow2"
)

func TestQcow2ThatIsCutOffIsNotAnImage(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	const size = 1 << 20
	if err := raw.Truncate(size); err != nil {
		t.Fatal(err)
	}
	disk, err := os.Create(filepath.Join(dir, "qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := qcow2.Write(disk, raw, size); err != nil {
		t.Fatal(err)
	}

	// The end is in the first table, and then in the header.
	for _, length := range []int64{512, 8} {
		if err := disk.Truncate(length); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), disk.Name(), meter.None)
		want := disk.Name() + ": the qcow2 file is cut off\n" +
			"hint: get it again, and compare it with SHA256SUMS"
		if err == nil || hint.Text(err) != want || fault.Of(err) != fault.NotAnImage {
			t.Errorf("%d bytes: code %s of %v, want %s", length, fault.Of(err), err, want)
		}
	}
}
