package ext4

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/test/judge"
)

func mke2fs(t *testing.T) string {
	t.Helper()
	img := filepath.Join(t.TempDir(), "fs")
	judge.Run(t, "mke2fs", "-q", "-t", "ext4", "-O", "metadata_csum,metadata_csum_seed,64bit", "-b",
		"4096", "-L", "loam-state", "-J", "size=16", img, "256M")
	return img
}

func template(t *testing.T, img string) Template {
	t.Helper()
	f, err := os.Open(img)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	tpl, err := FromImage(f, 256<<20)
	if err != nil {
		t.Fatal(err)
	}

	return tpl
}

func TestTemplateWithNewIdentityPassesFsck(t *testing.T) {
	tpl := template(t, mke2fs(t))
	back, err := DecodeTemplate(tpl.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tpl, back); d != "" {
		t.Fatal("decoding what was encoded differs")
	}

	id := uuid.MustParse("6f9619ff-8b86-d011-b42d-00cf4fc964ff")
	img := filepath.Join(t.TempDir(), "copy")
	f, err := os.Create(img)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	if err := f.Truncate(back.Size); err != nil {
		t.Fatal(err)
	}

	for _, e := range back.WithIdentity(id, id).Extents {
		if _, err := f.WriteAt(e.Data, e.Offset); err != nil {
			t.Fatal(err)
		}
	}

	sb, err := ReadSuperblock(f)
	if err != nil {
		t.Fatal(err)
	}

	want := Superblock{
		UUID:      id,
		Label:     "loam-state",
		BlockSize: 4096,
		Blocks:    65536,
	}
	if d := cmp.Diff(want, sb); d != "" {
		t.Error(d)
	}

	backup := make([]byte, superblockSize)
	if _, err := f.ReadAt(backup, 32768*4096); err != nil {
		t.Fatal(err)
	}
	if sb, err := parseSuperblock(backup); err != nil || sb.UUID != id {
		t.Errorf("backup superblock: %v, %v", sb, err)
	}

	judge.Run(t, "e2fsck", "-fn", img)
}

func TestReadSuperblockSaysWhatIsNotExt4(t *testing.T) {
	img := mke2fs(t)
	f, err := os.OpenFile(img, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	first := make([]byte, 1) // mke2fs draws the UUID: any value may be there.
	if _, err := f.ReadAt(first, SuperblockOffset+offUUID); err != nil {
		t.Fatal(err)
	}
	first[0] ^= 1
	if _, err := f.WriteAt(first, SuperblockOffset+offUUID); err != nil {
		t.Fatal(err)
	}

	if _, err := ReadSuperblock(f); err == nil || errors.Is(err, ErrNotExt4) {
		t.Errorf("a damaged superblock: %v", err)
	}
	if _, err := f.WriteAt([]byte{0, 0}, SuperblockOffset+offMagic); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSuperblock(f); !errors.Is(err, ErrNotExt4) {
		t.Errorf("a superblock without magic: %v", err)
	}
}

func FuzzDecodeTemplate(f *testing.F) {
	f.Add([]byte(templateMagic + "\x00\x00\x10\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tpl, err := DecodeTemplate(b); err == nil {
			tpl.WithIdentity(uuid.UUID{}, uuid.UUID{})
		}
	})
}
