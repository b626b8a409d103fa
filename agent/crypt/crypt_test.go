package crypt

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/luks"
)

// chip is a TPM in a state of its firmware.
type chip struct {
	state  string
	broken error

	// signed lists the keys that have signed the running system.
	signed []*rsa.PublicKey
}

func (c *chip) Seal(secret []byte, key *rsa.PublicKey) (tpm.Sealed, error) {
	sealed := tpm.Sealed{Private: bytes.Clone(secret), PCR: []byte(c.state)}
	if key != nil {
		sealed.Key = x509.MarshalPKCS1PublicKey(key)
	}
	return sealed, c.broken
}

func (c *chip) Unseal(s tpm.Sealed) ([]byte, error) {
	switch {
	case c.broken != nil:
		return nil, c.broken
	case string(s.PCR) != c.state:
		return nil, tpm.ErrFirmware
	case s.Key != nil && !slices.ContainsFunc(c.signed, func(key *rsa.PublicKey) bool {
		return bytes.Equal(x509.MarshalPKCS1PublicKey(key), s.Key)
	}):
		return nil, tpm.ErrUnsigned
	}
	return s.Private, nil
}

// machine is a computer with a chip, and keys that an operator gave to it.
type machine struct {
	testing.TB
	*chip
	Machine
	disk *device.Memory
}

func newMachine(t testing.TB, keys ...string) *machine {
	m := &machine{TB: t, chip: &chip{state: "as it was"}, disk: device.NewMemory(20 << 20)}
	m.Machine = Machine{TPM: m.chip, SecureBoot: true, Random: rand.Reader}
	m.give(keys...)
	return m
}

func (m *machine) give(keys ...string) {
	m.Given = func() (given []Given) {
		for _, key := range keys {
			given = append(given, Given{"a stick", []byte(key)})
		}
		return given
	}
}

func (m *machine) format(mode Mode) (recovery string) {
	m.Helper()
	recovery, err := m.Format(m.disk, Mark{Encrypt: mode})
	if err != nil {
		m.Fatal(err)
	}
	return recovery
}

func (m *machine) opens(by Mode) Opened {
	m.Helper()
	o, err := m.Open(m.disk)
	if err != nil || o.By != by || len(o.VolumeKey) != luks.KeySize {
		m.Errorf("opened by %q, %v, want %q", o.By, err, by)
	}
	return o
}

func (m *machine) staysShut(want string) {
	m.Helper()
	if _, err := m.Open(m.disk); err == nil || !strings.Contains(err.Error(), want) {
		m.Errorf("error %v, want one with %q", err, want)
	}
}

func TestByTheTPM(t *testing.T) {
	m := newMachine(t)
	recovery := m.format(TPM)
	m.opens(TPM)

	m.state = "another"
	m.SecureBoot = false
	m.staysShut("Secure Boot was on, and is off")
	m.SecureBoot = true
	m.staysShut("have changed (PCR 7)")
	m.give("a guess")
	m.staysShut("a stick: the key opens no key slot")

	plain := strings.ToLower(strings.ReplaceAll(recovery, "-", " ")) + "\n"
	for _, typed := range []string{recovery, plain, " " + strings.ReplaceAll(recovery, "-", "")} {
		m.give("a guess", typed)
		if o := m.opens(Recovery); o.Place != "a stick" {
			t.Errorf("found at %q", o.Place)
		}
	}
}

func TestTheTPMOpensWhatTheRecoveryKeyHasOpened(t *testing.T) {
	m := newMachine(t)
	recovery := m.format(TPM)
	if done, err := m.Reseal(m.disk, m.opens(TPM)); done || err != nil {
		t.Errorf("sealed again: %t, %v", done, err)
	}

	m.state = "another"
	m.give(recovery)
	if done, err := m.Reseal(m.disk, m.opens(Recovery)); !done || err != nil {
		t.Fatalf("sealed again: %t, %v", done, err)
	}
	m.give()
	o := m.opens(TPM)
	if got := o.Header.Slots(); len(got) != 2 || len(o.Header.Tokens()) != 2 {
		t.Errorf("key slots %d, tokens %d", got, o.Header.Tokens())
	}

	m.state = "as it was"
	m.staysShut("have changed (PCR 7)")
	m.broken = errors.New("no answer")
	m.give(recovery)
	if done, err := m.Reseal(m.disk, m.opens(Recovery)); done || err == nil {
		t.Errorf("sealed again: %t, %v", done, err)
	}
	m.broken = nil
	m.state = "another"
	m.give()
	m.opens(TPM)
}

// runs makes the machine run a system that keys have signed. The first of them is
// in its UKI; everywhere says whether the other systems are signed by it, too.
func (m *machine) runs(everywhere bool, keys ...*rsa.PrivateKey) {
	m.Key = nil
	m.signed = nil
	for _, key := range keys {
		m.signed = append(m.signed, &key.PublicKey)
		m.Key = m.signed[0]
	}
	m.Everywhere = func() bool { return everywhere }
}

// reseals fails unless the key of the TPM is replaced, or not, as wanted.
func (m *machine) reseals(by Mode, want bool) {
	m.Helper()
	if done, err := m.Reseal(m.disk, m.opens(by)); done != want || err != nil {
		m.Errorf("sealed again: %t, %v, want %t", done, err, want)
	}
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestAContainerOfSignedSystems: once all systems of a machine are signed by a
// key, the TPM opens the container for these only.
func TestAContainerOfSignedSystems(t *testing.T) {
	const unsigned = "is not signed by the key"
	key, next := newKey(t), newKey(t)
	m := newMachine(t)
	recovery := m.format(TPM)

	// An upgrade brings the first signed system. Until it is in both slots, the
	// other one must open the container.
	m.runs(false, key)
	m.reseals(TPM, false)
	m.runs(false)
	m.reseals(TPM, false)
	m.runs(true, key)
	opened := m.opens(TPM)
	if done, err := m.Reseal(m.disk, opened); !done || err != nil || opened.SealedFor() == "" {
		t.Errorf("sealed again: %t, %v, for %q", done, err, opened.SealedFor())
	}
	m.reseals(TPM, false)
	if got := m.opens(TPM).SealedFor(); got != pcrsig.Fingerprint(&key.PublicKey) {
		t.Errorf("the TPM wants a signature of %q", got)
	}
	m.runs(false)
	m.staysShut(unsigned)
	m.runs(true, next)
	m.staysShut(unsigned)

	// The next key: first beside the old one, then in all systems.
	m.runs(false, next, key)
	m.reseals(TPM, false)
	m.runs(true, next, key)
	m.reseals(TPM, true)
	m.runs(false, key)
	m.staysShut(unsigned)
	m.runs(true, next)
	m.reseals(TPM, false)

	// After the recovery key, what is on the disk does not widen it.
	m.state = "another"
	m.give(recovery)
	m.runs(false, next)
	m.reseals(Recovery, true)
	m.give()
	m.runs(false)
	m.staysShut(unsigned)
}

// TestANewContainerOfASignedSystem is for signed systems from the start.
func TestANewContainerOfASignedSystem(t *testing.T) {
	for _, everywhere := range []bool{true, false} {
		m := newMachine(t)
		m.runs(everywhere, newKey(t))
		m.format(TPM)
		if got := m.opens(TPM).SealedFor(); (got != "") != everywhere {
			t.Errorf("signed everywhere %t: the TPM wants a signature of %q", everywhere, got)
		}
	}
}

func TestByAKey(t *testing.T) {
	m := newMachine(t)
	if _, err := m.Format(m.disk, Mark{Encrypt: Key}); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}

	m.give("correct horse")
	recovery := m.format(Key)
	m.opens(Key)
	m.give(recovery)
	m.opens(Recovery)
	m.give()
	m.staysShut("nobody gave a key")
	m.give("another")
	m.staysShut("the key opens no key slot")
}

func TestATPMThatIsBroken(t *testing.T) {
	m := newMachine(t)
	m.broken = errors.New("no answer")
	if _, err := m.Format(m.disk, Mark{Encrypt: TPM}); !errors.Is(err, m.broken) {
		t.Errorf("error %v", err)
	}
	if is, err := luks.Probe(m.disk); is || err != nil {
		t.Errorf("there is a container: %v, %v", is, err)
	}
}

// TestTheDataAskToBeFormatted: the mapping will begin with the mark.
func TestTheDataAskToBeFormatted(t *testing.T) {
	m := newMachine(t)
	m.format(TPM)
	sealed := make([]byte, luks.SectorSize)
	_, _ = m.disk.ReadAt(sealed, luks.DataOffset)
	if bytes.Contains(sealed, []byte("LOAM")) {
		t.Error("the mark is not encrypted")
	}

	// The cipher is its own judge: the same data are the same bytes.
	o := m.opens(TPM)
	again := device.NewMemory(20 << 20)
	start := make([]byte, luks.SectorSize)
	copy(start, ext4.FormatMark)
	if err := o.Header.WriteData(again, o.VolumeKey, start, 0); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, luks.SectorSize)
	_, _ = again.ReadAt(want, luks.DataOffset)
	if !bytes.Equal(sealed, want) {
		t.Error("the data do not begin with the mark")
	}
}

func TestMarks(t *testing.T) {
	for _, want := range []Mark{
		{},
		{Encrypt: TPM},
		{Encrypt: Key},
		{Reset: `{"done":true}`},
		{Encrypt: TPM, Reset: `{"done":true}`},
	} {
		text := append(want.Bytes(), make([]byte, 100)...)
		if got := ReadMark(text); got != want || !bytes.HasPrefix(text, []byte(ext4.FormatMark)) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}

	for _, text := range []string{
		"", "ENCRYPT WITH tpm\n", ext4.FormatMark + "ENCRYPT WITH recovery\n",
		ext4.FormatMark + "ENCRYPT WITH t",
	} {
		if got := ReadMark([]byte(text)); got != (Mark{}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}

	tooLong := Mark{Reset: strings.Repeat("x", markSize)}
	if err := tooLong.Write(device.NewMemory(1 << 20)); err == nil {
		t.Error("a mark of more than a sector is written")
	}
}

// TestDrop: neither TPM nor recovery key open the container afterwards, and the
// next one has the same kind of key and the record of the reset. A second call
// changes nothing.
func TestDrop(t *testing.T) {
	m := newMachine(t, "correct horse")
	for _, mode := range []Mode{TPM, Key} {
		recovery := m.format(mode)
		before := m.opens(mode)

		const record = `{"done":true}`
		want := Mark{Encrypt: mode, Reset: record}
		for range 2 {
			if err := Drop(m.disk, record); err != nil {
				t.Fatal(err)
			}
			start := make([]byte, markSize)
			_, _ = m.disk.ReadAt(start, 0)
			if got := ReadMark(start); got != want {
				t.Errorf("the mark is %+v, want %+v", got, want)
			}
		}

		found, _ := Find(m.disk)
		rest := make([]byte, luks.DataOffset-firstBlock)
		_, _ = m.disk.ReadAt(rest, firstBlock)
		if found || len(bytes.Trim(rest, "\x00")) > 0 {
			t.Error("something of the container is left")
		}
		if _, _, err := before.Header.Open(m.disk, []byte(recovery)); err == nil {
			t.Error("the recovery key opens the old header")
		}
	}
}

// TestAPowerCutWhileTheKeyIsDropped leaves the container, or a partition that
// asks for a new one.
func TestAPowerCutWhileTheKeyIsDropped(t *testing.T) {
	m := newMachine(t)
	m.format(TPM)
	for writes := range 17 {
		d := &failing{Memory: m.disk.Clone(), writes: writes}
		if err := Drop(d, "{}"); err == nil {
			t.Fatalf("dropped with %d writes", writes)
		}

		start := make([]byte, markSize)
		_, _ = d.ReadAt(start, 0)
		if marked := ReadMark(start).Encrypt == TPM; marked != (writes > 0) {
			t.Errorf("after %d writes it begins with %q", writes, start[:32])
		}
	}
}

// failing is a disk that fails after some writes.
type failing struct {
	*device.Memory
	writes int
}

func (f *failing) WriteAt(p []byte, off int64) (int, error) {
	if f.writes == 0 {
		return 0, errors.New("no power")
	}
	f.writes--
	return f.Memory.WriteAt(p, off)
}

// structure is one of SMBIOS.
func structure(kind byte, strings ...string) []byte {
	all := []byte{kind, 5, 0, 0, 1}
	for _, s := range strings {
		all = append(append(all, s...), 0)
	}
	if len(strings) == 0 {
		all = append(all, 0)
	}
	return append(all, 0)
}

func TestCredentials(t *testing.T) {
	coded := base64.StdEncoding.EncodeToString([]byte("the key"))
	for name, test := range map[string]struct {
		tables []byte
		want   string
	}{
		"none":    {nil, ""},
		"as text": {structure(11, "x", "io.systemd.credential:key=the key"), "the key"},
		"as base64": {slices.Concat(structure(0), structure(1, "maker"),
			structure(11, "io.systemd.credential.binary:key="+coded)), "the key"},
		"in the second": {slices.Concat(structure(11),
			structure(11, "io.systemd.credential:key=a")), "a"},
		"of another name":      {structure(11, "io.systemd.credential:keys=a"), ""},
		"in another structure": {structure(1, "io.systemd.credential:key=a"), ""},
		"cut off":              {structure(11, "io.systemd.credential:key=a")[:20], ""},
		"too long":             {[]byte{11, 255, 0, 0}, ""},
		"without a length":     {[]byte{11, 0, 0, 0, 0, 0}, ""},
	} {
		if got := string(credential(test.tables, "key")); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
