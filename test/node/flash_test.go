package node

import (
	"bytes"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/flash"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/test/judge"
)

// TestAFlashedDiskBoots flashes the packed image onto a disk that was in use
// before: there is noise at every MiB of it, and an old table.
func TestAFlashedDiskBoots(t *testing.T) {
	judge.Long(t, "TestUSBInstaller")
	parallel(t, 2*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.config.Disk = filepath.Join(m.config.Dir, "flashed.raw")
	used(t, m.config.Disk)

	source, err := inspect.OpenSource(t.Context(), b.file(".raw.zst"), meter.None)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()

	id, err := partitions.NewIdentity(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	layers := flash.NewOverlay(source)
	im, err := flash.Prepare(layers, source.Size, id, []byte(machineYAML(b.manifest.Arch, "")))
	if err != nil {
		t.Fatal(err)
	}

	disk, err := os.OpenFile(m.config.Disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}

	err = errors.Join(
		flash.Write(t.Context(), disk, usedSize, layers, im, func(string, int64, int64) {}),
		disk.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}

	n := m.on(t, nil)
	n.shell()
	n.sh("until test -e /run/loam/status.json; do sleep 0.2; done")

	s := n.status()
	if s.Hostname != "hello" || s.RootHash != b.manifest.RootHash || s.Phase == status.Failed {
		t.Errorf("status %+v", s)
	}

	n.want("findmnt -no FSTYPE /var; systemctl --failed --no-legend | wc -l", "ext4\n0")
	n.off()
}

const usedSize = 8 << 30

// used makes a disk with noise all over it.
func used(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}

	noise := make([]byte, 8192)
	_, _ = mathrand.NewChaCha8([32]byte{1}).Read(noise)

	err = f.Truncate(usedSize)
	for at := int64(0); at < usedSize; at += 1 << 20 {
		_, writeErr := f.WriteAt(noise, at)
		err = errors.Join(err, writeErr)
	}

	_, writeErr := f.WriteAt(bytes.Repeat([]byte("EFI PART"), 64), usedSize-512)
	if err := errors.Join(err, writeErr, f.Close()); err != nil {
		t.Fatal(err)
	}
}
