package luks

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/device"
)

const size = 20 << 20

// quick is a KDF for passphrases that takes no time.
func quick() KDF {
	k := ForPassphrases()
	k.Time = 1
	k.Memory = 64
	return k
}

// container is a device with a container that each passphrase opens, and its
// key.
func container(t testing.TB, passphrases ...string) (*device.Memory, *Header, []byte) {
	t.Helper()
	d := device.NewMemory(size)
	h, key, err := New(uuid.New(), "state", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	for i, p := range passphrases {
		kdf := quick()
		if i%2 == 1 {
			kdf = ForKeys()
		}
		if n, err := h.AddSlot(d, key, []byte(p), kdf, rand.Reader); err != nil || n != i {
			t.Fatalf("key slot %d: %d, %v", i, n, err)
		}
	}

	if err := h.Write(d); err != nil {
		t.Fatal(err)
	}
	return d, h, key
}

func read(t testing.TB, d device.Device) *Header {
	t.Helper()
	h, err := Read(d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func opens(t testing.TB, d device.Device, passphrase string, key []byte, slot int) {
	t.Helper()
	got, n, err := read(t, d).Open(d, []byte(passphrase))
	if err != nil || n != slot || !bytes.Equal(got, key) {
		t.Errorf("%q opens key slot %d, error %v, want %d", passphrase, n, err, slot)
	}
}

func staysShut(t testing.TB, d device.Device, passphrase string) {
	t.Helper()
	if _, n, err := read(t, d).Open(d, []byte(passphrase)); !errors.Is(err, ErrNoSlot) {
		t.Errorf("%q opens key slot %d, error %v", passphrase, n, err)
	}
}

func TestKeySlots(t *testing.T) {
	d, h, key := container(t, "first", "second", "third")
	for i, p := range []string{"first", "second", "third"} {
		opens(t, d, p, key, i)
	}
	staysShut(t, d, "fourth")

	if err := h.RemoveSlot(d, 1); err != nil {
		t.Fatal(err)
	}
	staysShut(t, d, "second") // It is overwritten already.
	if err := h.Write(d); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d).Slots(); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("key slots %d", got)
	}
	opens(t, d, "third", key, 2)

	if n, err := h.AddSlot(d, key, []byte("new"), quick(), rand.Reader); err != nil || n != 1 {
		t.Fatalf("key slot %d, %v, want the free one", n, err)
	}
	if err := h.Write(d); err != nil {
		t.Fatal(err)
	}
	opens(t, d, "new", key, 1)
	opens(t, d, "first", key, 0)
}

// TestAPreparedKeySlot is opened by its passphrase, which is not known when the
// slot is made.
func TestAPreparedKeySlot(t *testing.T) {
	p, err := Prepare([]byte("recovery"), quick(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d, h, key := container(t, "first")
	number, err := h.AddPrepared(d, key, p, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Write(d); err != nil {
		t.Fatal(err)
	}
	opens(t, d, "recovery", key, number)
	staysShut(t, d, string(p.Key))
}

func TestAKeyOfAnotherContainerIsRefused(t *testing.T) {
	d, h, _ := container(t, "first")
	_, _, other := container(t)
	if _, err := h.AddSlot(d, other, []byte("second"), quick(), rand.Reader); err == nil {
		t.Error("added")
	}
}

type testToken struct {
	Type     string   `json:"type"`
	Keyslots []string `json:"keyslots"`
	Blob     []byte   `json:"blob"`
}

func TestTokens(t *testing.T) {
	d, h, _ := container(t, "first", "second")
	want := testToken{Type: "loam-test", Keyslots: []string{"0", "1"}, Blob: []byte("sealed")}
	if err := h.SetToken(3, want); err != nil {
		t.Fatal(err)
	}
	if err := h.SetToken(4, testToken{Type: "loam-test", Keyslots: []string{"7"}}); err == nil {
		t.Error("a token of a key slot that is not there was set")
	}
	if err := h.Write(d); err != nil {
		t.Fatal(err)
	}

	h = read(t, d)
	var got testToken
	if err := json.Unmarshal(h.Token(3), &got); err != nil || string(got.Blob) != "sealed" {
		t.Errorf("token %+v, %v", got, err)
	}

	for slot, want := range []int{1, 0} { // The token goes with its last key slot.
		if err := h.RemoveSlot(d, slot); err != nil {
			t.Fatal(err)
		}
		if err := h.Write(d); err != nil {
			t.Fatal(err)
		}
		if got := len(read(t, d).Tokens()); got != want {
			t.Errorf("%d tokens after key slot %d, want %d", got, slot, want)
		}
	}
}

func TestFullOfKeySlots(t *testing.T) {
	d, h, key := container(t)
	for i := range maxSlots {
		if _, err := h.AddSlot(d, key, []byte{byte(i)}, ForKeys(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.AddSlot(d, key, []byte("more"), ForKeys(), rand.Reader); err == nil {
		t.Error("a key slot too many was added")
	}
	if err := h.Write(d); err != nil {
		t.Errorf("the metadata do not fit: %v", err)
	}
}

// cutDevice records the writes to a device.
type cutDevice struct {
	*device.Memory
	writes []write
}

type write struct {
	before *device.Memory
	offset int64
	data   []byte
}

func (c *cutDevice) WriteAt(p []byte, off int64) (int, error) {
	c.writes = append(c.writes, write{c.Memory.Clone(), off, bytes.Clone(p)})
	return c.Memory.WriteAt(p, off)
}

// cuts calls check with the disks that a power cut may leave: some sectors of
// a write are there, and others are not. Each write of the package is synced
// before the next one.
func (c *cutDevice) cuts(check func(d *device.Memory)) {
	const sector = 512
	for _, w := range c.writes {
		for n := 0; n <= len(w.data); n += sector {
			first := w.before.Clone()
			_, _ = first.WriteAt(w.data[:n], w.offset)
			check(first)

			last := w.before.Clone()
			_, _ = last.WriteAt(w.data[n:], w.offset+int64(n))
			check(last)
		}
	}
}

func TestAPowerCutLeavesTheOldHeaderOrTheNewOne(t *testing.T) {
	d, h, key := container(t, "first")
	c := &cutDevice{Memory: d}
	if err := h.SetToken(0, testToken{Type: "new", Keyslots: []string{"0"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Write(c); err != nil {
		t.Fatal(err)
	}

	before, after := 0, 0
	c.cuts(func(d *device.Memory) {
		h, err := Read(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Tokens()) == 1 {
			after++
		} else {
			before++
		}
	})
	if before == 0 || after == 0 {
		t.Errorf("%d cuts before the change, %d after it", before, after)
	}
	opens(t, d, "first", key, 0)
}

// TestAPowerCutDuringTheFirstHeader: until the container is whole, the device
// still begins with what was there.
func TestAPowerCutDuringTheFirstHeader(t *testing.T) {
	c := &cutDevice{Memory: device.NewMemory(size)}
	_, _ = c.Memory.WriteAt([]byte("the mark"), 0)
	h, key, err := New(uuid.New(), "", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddSlot(c, key, []byte("first"), quick(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	c.writes = nil
	if err := h.Write(c); err != nil {
		t.Fatal(err)
	}

	c.cuts(func(d *device.Memory) {
		start := make([]byte, 8)
		_, _ = d.ReadAt(start, 0)
		is, err := Probe(d)
		if err != nil {
			t.Fatal(err)
		}
		if !is && string(start) != "the mark" {
			t.Fatalf("the device begins with %q", start)
		}
		if is {
			opens(t, d, "first", key, 0)
		}
	})
}

func TestEitherCopyIsEnough(t *testing.T) {
	for name, offset := range map[string]int64{
		"the first copy is damaged":  100,
		"the first copy is gone":     0,
		"the second copy is damaged": copySize + 5000,
	} {
		d, h, key := container(t, "first")
		_, _ = d.WriteAt([]byte("damage"), offset)
		opens(t, d, "first", key, 0)

		if err := h.Write(d); err != nil {
			t.Fatal(err)
		}
		_, _ = d.WriteAt([]byte("damage"), (offset+copySize)%(2*copySize))
		if _, err := Read(d); err != nil {
			t.Errorf("%s: written again: %v", name, err)
		}
	}
}

func TestRead(t *testing.T) {
	blank := device.NewMemory(size)
	if _, err := Read(blank); !errors.Is(err, ErrNotLUKS) {
		t.Errorf("a blank device: %v", err)
	}
	if _, err := Read(device.NewMemory(100)); !errors.Is(err, ErrNotLUKS) {
		t.Errorf("a small device: %v", err)
	}
}

func TestTable(t *testing.T) {
	_, h, _ := container(t)
	want := "aes-xts-plain64 0102 0 /dev/vda8 32768 4 sector_size:4096 allow_discards " +
		"no_read_workqueue no_write_workqueue"
	if got := h.Table("/dev/vda8", []byte{1, 2}); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}

	// What cryptsetup was told with --persistent counts here as well.
	h.meta.Config.Flags = []string{"no-write-workqueue", "no-journal", "same-cpu-crypt"}
	want = "aes-xts-plain64 0102 0 /dev/vda8 32768 3 sector_size:4096 same_cpu_crypt " +
		"no_write_workqueue"
	if got := h.Table("/dev/vda8", []byte{1, 2}); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// FuzzRead: any bytes give an error or a header that reads back equal when it
// is written.
func FuzzRead(f *testing.F) {
	d, _, _ := container(f, "first", "second")
	start := make([]byte, 2*copySize)
	_, _ = d.ReadAt(start, 0)
	document, _, _ := bytes.Cut(start[binarySize:copySize], []byte{0})
	f.Add(start[:512], document)
	f.Fuzz(func(t *testing.T, head, document []byte) {
		all := make([]byte, copySize)
		copy(all[binarySize:], document)
		copy(all[:binarySize], head)
		sum := checksum(all)
		copy(all[checksumOffset:], sum[:])

		d := device.NewMemory(size)
		_, _ = d.WriteAt(all, 0)
		h, err := Read(d)
		if err != nil {
			return
		}

		d = device.NewMemory(size)
		if err := h.Write(d); err != nil {
			return // Too long with our spelling.
		}
		again := read(t, d)
		if !slices.Equal(again.Slots(), h.Slots()) || again.UUID != h.UUID ||
			again.Table("x", nil) != h.Table("x", nil) {
			t.Errorf("%+v\nreads back as %+v", h, again)
		}
	})
}
