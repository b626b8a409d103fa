package boot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/test/firmware"
)

func TestTheEpochOfASystem(t *testing.T) {
	for text, want := range map[string]int{
		"quiet":                0,
		"quiet loam.epoch=3":   3,
		"loam.epoch=-1 quiet":  0,
		"loam.epoch=new quiet": 0,
	} {
		f := machine()
		f.Cmdline += " " + text
		d, err := Decide(f)
		if err != nil || d.Epoch != want {
			t.Errorf("%q: %d, %v, want %d", text, d.Epoch, err, want)
		}
	}
}

func TestTheRecordedEpoch(t *testing.T) {
	for text, want := range map[string]int{
		"":                              0,
		"{":                             0,
		`{"floor": 3, "of": {"ab": 4}}`: 3,
	} {
		root := t.TempDir()
		name := filepath.Join(root, EpochName)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := recordedEpoch(root); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := recordedEpoch(t.TempDir()); got != 0 {
		t.Errorf("no record: %d", got)
	}
}

// TestOnlyTheOldSystemIsParked, by its root hash, whatever its entry is called.
func TestOnlyTheOldSystemIsParked(t *testing.T) {
	old, other := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
	name := filepath.Join(t.TempDir(), "esp")
	const size = 528 << 20
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	entry := func(file, hash string) esp.File {
		cmdline := uki.Section{Name: ".cmdline", Data: []byte("quiet roothash=" + hash)}
		return esp.File{Path: bootentry.Dir + "/" + file, Data: firmware.PE(cmdline)}
	}
	if err := esp.Write(f, size, 512, 1, []esp.File{
		entry("loam-node-os_9.9.9_x86-64.efi", old),
		entry("loam-node-os_2.0.0_x86-64.efi", other),
	}); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if err := parkEntries(name, old); err != nil {
			t.Fatal(err)
		}
	}

	files, err := bootdir.Open(f, size, 512)
	if err != nil {
		t.Fatal(err)
	}
	found, err := files.ReadDir(bootentry.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range found {
		names = append(names, file.Name)
	}
	got := strings.Join(names, " ")
	if !strings.Contains(got, "loam-node-os_9.9.9_x86-64+0-0.efi") ||
		!strings.Contains(got, "loam-node-os_2.0.0_x86-64.efi") {
		t.Errorf("entries: %s", got)
	}
}

// tpmNumber is a number in a TPM, up to what may be signed.
type tpmNumber struct {
	value, most int
	broken      error
}

func (n *tpmNumber) Read() (int, error) { return n.value, n.broken }

func (n *tpmNumber) Raise(to int) error {
	if to > n.most {
		return tpm.ErrUnsigned
	}
	n.value = max(n.value, to)
	return n.broken
}

// TestTheNumberOfAKeyCounts, and the other one only until there is one.
func TestTheNumberOfAKeyCounts(t *testing.T) {
	broken := errors.New("no answer")
	for _, tt := range []struct {
		name   string
		plain  *tpmNumber
		signed number
		want   int
		err    error
	}{
		{name: "a system that is not signed", plain: &tpmNumber{value: 3}, want: 3},
		{
			name:   "a first signed system",
			plain:  &tpmNumber{value: 3},
			signed: &tpmNumber{},
			want:   3,
		},
		{
			name:   "the other number has been raised to its limit",
			plain:  &tpmNumber{value: 64},
			signed: &tpmNumber{value: 2},
			want:   2,
		},
		{
			name:   "the number is of another key",
			plain:  &tpmNumber{value: 3},
			signed: &tpmNumber{broken: tpm.ErrTaken},
			want:   3,
		},
		{
			name:   "a TPM that is broken",
			plain:  &tpmNumber{value: 64},
			signed: &tpmNumber{broken: broken},
			err:    broken,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := floorOf(tt.plain, tt.signed)
			if got != tt.want || err != tt.err {
				t.Errorf("%d, %v, want %d, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestBothNumbersRise(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		recorded, own, before int
		plain, signed         int
	}{
		{name: "no epoch"},
		{name: "the other slot is older", recorded: 1, own: 2, plain: 1, signed: 1},
		{name: "both slots have it", recorded: 2, own: 2, plain: 2, signed: 2},
		{name: "a forged record", recorded: 9, own: 2, plain: 2, signed: 2},
		{name: "a new state", recorded: 0, own: 2, before: 2, plain: 2, signed: 2},
		{name: "a forged number", recorded: 1, own: 2, before: 64, plain: 64, signed: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain := &tpmNumber{value: tt.before, most: 64}
			signed := &tpmNumber{most: tt.own}
			floor, err := raise(plain, signed, tt.recorded, tt.own)
			if err != nil || floor != tt.signed || plain.value != tt.plain ||
				signed.value != tt.signed {
				t.Errorf("%d, %v; plain %d, signed %d", floor, err, plain.value, signed.value)
			}

			plain = &tpmNumber{most: 64}
			if floor, err := raise(plain, nil, tt.recorded, tt.own); err != nil || floor != 0 ||
				plain.value != min(tt.recorded, tt.own) {
				t.Errorf("without a key: %d, %v, plain %d", floor, err, plain.value)
			}
		})
	}
}
