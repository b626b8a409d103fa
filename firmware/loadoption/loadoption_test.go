package loadoption

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
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
		{"an option that cannot be read", map[uint16][]byte{0: nil}, 1, false},
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

func TestOptionsThatStartTheSameProgramAreTheSame(t *testing.T) {
	o := Option{Description: "Loam", Partition: 1, Start: 2048, Size: 8192, Path: "EFI/BOOT/BOOTX64.EFI"}
	o.ID = uuid.MustParse("4d1ad3a7-79d0-4a5c-9d1f-3d9f1f1d6d01")
	ours := o.Encode()

	// A PCI root, and a device below it (UEFI 2.10, 10.3.3 and 10.3.2.1).
	way := []byte{2, 1, 12, 0, 0xd0, 0x41, 3, 0x0a, 0, 0, 0, 0, 1, 1, 6, 0, 2, 0x1f}
	fixed := 6 + len(text(o.Description))
	longer := slices.Concat(ours[:fixed], way, ours[fixed:])
	binary.LittleEndian.PutUint16(longer[4:], binary.LittleEndian.Uint16(ours[4:])+uint16(len(way)))

	with := func(change func(o *Option)) []byte { other := o; change(&other); return other.Encode() }
	asleep := slices.Clone(ours)
	asleep[0] = 0
	for _, test := range []struct {
		name   string
		option []byte
		want   bool
	}{
		{"itself", ours, true},
		{"with the way to the disk", longer, true},
		{"with data of the firmware", append(slices.Clone(ours), "Auto"...), true},
		{"with another name", with(func(o *Option) { o.Description = "UEFI OS" }), true},
		{"that is not active", asleep, false},
		{"of another partition", with(func(o *Option) { o.ID[0]++ }), false},
		{"of another file", with(func(o *Option) { o.Path = "EFI/other.efi" }), false},
		{"cut off", ours[:len(ours)-8], false},
		{"empty", nil, false},
	} {
		if got := Same(test.option, ours); got != test.want {
			t.Errorf("an option %s: %v, want %v", test.name, got, test.want)
		}
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
