package loadoption

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// TestEncode: the bytes are laid out by hand from UEFI 2.10, 3.1.3 and 10.3.
func TestEncode(t *testing.T) {
	got := Option{
		Description: "Lo",
		Partition:   1,
		Start:       2048,
		Size:        0x200000,
		ID:          uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff"),
		Path:        "EFI/B",
	}.Encode()

	const want = "01000000" + "4000" + "4c006f000000" + // active, 64 bytes of path, "Lo"
		"04012a00" + "01000000" + "0008000000000000" + "0000200000000000" +
		"33221100554477668899aabbccddeeff" + "0202" +
		"04041200" + "5c00450046004900" + "5c0042000000" + "7fff0400"
	if diff := cmp.Diff(want, hex.EncodeToString(got)); diff != "" {
		t.Errorf("Encode (-want +got):\n%s", diff)
	}
}

func TestPlace(t *testing.T) {
	ours := []byte{1}
	other := []byte{2}
	for _, test := range []struct {
		name  string
		there map[uint16][]byte
		want  uint16
		known bool
	}{
		{"an empty menu", nil, 0, false},
		{"the first that is free", map[uint16][]byte{0: other, 1: other, 3: other}, 2, false},
		{"it is there already", map[uint16][]byte{0: other, 7: ours}, 7, true},
	} {
		got, known, ok := Place(test.there, ours)
		if got != test.want || known != test.known || !ok {
			t.Errorf("%s: %d, %v, %v", test.name, got, known, ok)
		}
	}

	full := map[uint16][]byte{}
	for n := range 1 << 16 {
		full[uint16(n)] = other
	}

	if _, _, ok := Place(full, ours); ok {
		t.Error("a full menu has a place")
	}
}

func TestFirst(t *testing.T) {
	order := ParseOrder(EncodeOrder(3, 1, 0x20a))
	for number, want := range map[uint16][]uint16{
		1: {1, 3, 0x20a},
		3: {3, 1, 0x20a},
		9: {9, 3, 1, 0x20a},
	} {
		if diff := cmp.Diff(want, First(order, number)); diff != "" {
			t.Errorf("First %d (-want +got):\n%s", number, diff)
		}
	}

	if Name(0x20a) != "Boot020A" {
		t.Error(Name(0x20a))
	}
}
