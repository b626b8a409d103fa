package partitions_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// The types that systemd derives, as its own code gives them.
func TestPartialTypesAreSystemds(t *testing.T) {
	for _, test := range []struct {
		role          partitions.Role
		arch, partial string
	}{
		{partitions.Root, "amd64", "7a01d3c6-92ac-43e9-bd77-5726b602ad9d"},
		{partitions.RootVerity, "amd64", "8c9d831f-549b-4672-8816-6c435759bb75"},
		{partitions.RootVeritySig, "amd64", "d2d19af9-9bb3-4f94-9cdc-9f616b2dd031"},
		{partitions.Root, "arm64", "5d74642f-2b5f-49e1-972e-0e3af0cdb6c4"},
		{partitions.RootVerity, "arm64", "ad0e0018-6d35-4112-8e36-c9afc6664dea"},
		{partitions.RootVeritySig, "arm64", "267a49ed-a55c-4454-b40d-ef7bcaa2f2df"},
	} {
		got := partitions.PartialType(partitions.TypeUUID(test.role,
			test.arch))
		if got != uuid.MustParse(test.partial) {
			t.Errorf("%s of %s: %s, want %s", test.role, test.arch, got, test.partial)
		}
	}
}

func TestASlotIsEmptiedAndSealed(t *testing.T) {
	defs, err := partitions.Definitions()
	if err != nil {
		t.Fatal(err)
	}

	first := [32]byte{1: 1, 31: 1}
	second := [32]byte{1: 2, 31: 2}

	table, err := partitions.Place(defs, partitions.Params{
		Arch:       "amd64",
		RootHash:   first,
		ImageID:    "loam",
		Version:    "1",
		SectorSize: 512,
	})
	if err != nil {
		t.Fatal(err)
	}

	holds := func(table gpt.Table, slot int, want [32]byte, wantWhole bool) {
		t.Helper()
		slots, err := partitions.Slots(table, "amd64")
		if err != nil {
			t.Fatal(err)
		}

		hash, whole := slots[slot].Holds(table, "amd64")
		if whole != wantWhole || (whole && hash != want) {
			t.Errorf("slot %s holds %x, whole %v", slots[slot].Name, hash, whole)
		}

		if err := table.Validate(); err != nil {
			t.Error(err)
		}
	}

	holds(table, 0, first, true)
	holds(table, 1, second, false)

	slots, err := partitions.Slots(table, "amd64")
	if err != nil {
		t.Fatal(err)
	}

	sealed := slots[1].Seal(table, "amd64", second, "loam_2", false)
	holds(sealed, 0, first, true)
	holds(sealed, 1, second, true)
	holds(table, 1, second, false) // The table given has not changed.
	emptied := slots[0].Empty(sealed, "amd64")
	holds(emptied, 0, first, false)
	holds(emptied, 1, second, true)
	both := slots[1].Empty(emptied, "amd64")
	holds(both, 1, second, false)

	sig := sealed.Partition(slots[1].Sig)
	if sig.Label != partitions.EmptyLabel ||
		sig.Type != partitions.TypeUUID(partitions.RootVeritySig, "amd64") {
		t.Errorf("a system that is not signed has a signature: %+v", sig)
	}

	signed := slots[1].Seal(both, "amd64", second, "loam_2", true)
	if sig := signed.Partition(slots[1].Sig); sig.Label != "loam_2" ||
		sig.Type != partitions.TypeUUID(partitions.RootVeritySig, "amd64") ||
		sig.UUID != partitions.SigUUID(second) {
		t.Errorf("a signature: %+v", sig)
	}
}

func TestADiskWithoutTwoSlotsIsAnError(t *testing.T) {
	if _, err := partitions.Slots(gpt.Table{}, "amd64"); err == nil {
		t.Error("an empty table has slots")
	}
}
