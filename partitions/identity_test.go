package partitions

import (
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestAnInstallationHasItsOwnUUIDs(t *testing.T) {
	image, err := Place(definitions(t), params())
	if err != nil {
		t.Fatal(err)
	}

	id, err := NewIdentity(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	// Only these three change: the slots are found by the root hash.
	want := image
	want.DiskGUID = id.Disk
	want.Partitions = append(want.Partitions[:0:0], image.Partitions...)
	want.Partitions[0].UUID = id.ESP
	want.Partitions[7].UUID = id.State

	got := id.Give(image)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for _, u := range []uuid.UUID{id.Disk, id.ESP, id.State} {
		if Public(u) {
			t.Errorf("%s looks derived", u)
		}
	}
	if !Public(image.DiskGUID) || image.Partitions[0].UUID != ImageESP(params().RootHash) {
		t.Errorf("image: disk %s, ESP %s", image.DiskGUID, image.Partitions[0].UUID)
	}

	other, err := NewIdentity(rand.Reader)
	if err != nil || other.Disk == id.Disk || other.ESP == id.ESP || other.State == id.State {
		t.Errorf("a second identity: %+v, %v", other, err)
	}

	_, err = NewIdentity(iotest.ErrReader(io.ErrClosedPipe))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("without randomness: %v", err)
	}
}

func TestATableWithoutAStateKeepsItsUUIDs(t *testing.T) {
	installer, err := Place(definitions(t)[:4], params())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(installer, (Identity{Disk: uuid.UUID{1}}).Give(installer)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
