package luks

import (
	"crypto/aes"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/xts"

	"github.com/loam-os/loam/partitions/device"
)

// KDF says how a key slot makes a key of a passphrase (section 3.2.1).
type KDF struct {
	// Type is pbkdf2, argon2i or argon2id.
	Type string `json:"type"`

	// Hash and Iterations are for pbkdf2.
	Hash       string `json:"hash,omitempty"`
	Iterations int    `json:"iterations,omitempty"`

	// Time, Memory (in KiB) and CPUs are for argon2.
	Time   int `json:"time,omitempty"`
	Memory int `json:"memory,omitempty"`
	CPUs   int `json:"cpus,omitempty"`

	Salt []byte `json:"salt"`
}

// ForKeys returns the KDF for a key of 256 random bits, which nobody guesses,
// so that it costs no time at each boot.
func ForKeys() KDF {
	return KDF{Type: "pbkdf2", Hash: "sha256", Iterations: minIterations}
}

// ForPassphrases returns the KDF for what a person made up. It needs 64 MiB,
// which the smallest node has.
func ForPassphrases() KDF {
	return KDF{
		Type:   "argon2id",
		Time:   4,
		Memory: 64 << 10,
		CPUs:   2,
	}
}

func (k KDF) validate() error {
	switch k.Type {
	case "pbkdf2":
		if newHash(k.Hash) == nil || k.Iterations < 1 || k.Iterations > maxIterations {
			return fmt.Errorf("pbkdf2 of hash %q, %d iterations", k.Hash, k.Iterations)
		}
	case "argon2i", "argon2id":
		if k.Time < 1 || k.Time > 1<<20 || k.Memory < 8 || k.Memory > maxMemory || k.CPUs < 1 ||
			k.CPUs > 4 {
			return fmt.Errorf("%s of time %d, memory %d KiB, %d CPUs", k.Type, k.Time, k.Memory,
				k.CPUs)
		}
	default:
		return fmt.Errorf("key derivation %q", k.Type)
	}
	return nil
}

func (k KDF) key(passphrase []byte, size int) ([]byte, error) {
	switch k.Type {
	case "argon2i":
		return argon2.Key(passphrase, k.Salt, uint32(k.Time), uint32(k.Memory), uint8(k.CPUs),
			uint32(size)), nil
	case "argon2id":
		return argon2.IDKey(passphrase, k.Salt, uint32(k.Time), uint32(k.Memory), uint8(k.CPUs),
			uint32(size)), nil
	}
	return derive(k.Hash, passphrase, k.Salt, k.Iterations, size)
}

// derive is PBKDF2.
func derive(name string, secret, salt []byte, iterations, size int) ([]byte, error) {
	return pbkdf2.Key(newHash(name), string(secret), salt, iterations, size)
}

// newHash returns the hash of a name, nil if it is not known.
func newHash(name string) func() hash.Hash {
	switch name {
	case "sha1":
		return sha1.New
	case "sha256":
		return sha256.New
	case "sha512":
		return sha512.New
	}
	return nil
}

const (
	stripes  = 4000
	slotSize = 252 << 10 // 4000 stripes of KeySize, in whole blocks
	block    = 512       // the unit of encryption of a key slot
)

// material is the size of the split key, in whole blocks.
func (k keyslot) material() int64 {
	return (int64(k.KeySize)*int64(k.AF.Stripes) + block - 1) / block * block
}

// Prepared is what a key slot needs to know of its passphrase: a slot can be
// added later, when the passphrase is not known any more. It is a secret as the
// passphrase is, but for the containers that have such a slot only.
type Prepared struct {
	KDF KDF    `json:"kdf"`
	Key []byte `json:"key"`
}

// Prepare derives the key of a key slot from its passphrase.
func Prepare(passphrase []byte, kdf KDF, random io.Reader) (Prepared, error) {
	kdf.Salt = make([]byte, 32)
	if _, err := io.ReadFull(random, kdf.Salt); err != nil {
		return Prepared{}, err
	}
	if err := kdf.validate(); err != nil {
		return Prepared{}, err
	}
	key, err := kdf.key(passphrase, KeySize)
	return Prepared{KDF: kdf, Key: key}, err
}

// AddSlot writes a key slot that passphrase opens to the device, and returns
// its number. The container has it after the next Write.
func (h *Header) AddSlot(
	d device.Device, key, passphrase []byte, kdf KDF, random io.Reader,
) (int, error) {
	p, err := Prepare(passphrase, kdf, random)
	if err != nil {
		return 0, fmt.Errorf("add a key slot: %w", err)
	}
	return h.AddPrepared(d, key, p, random)
}

// AddPrepared does what AddSlot does, without the passphrase.
func (h *Header) AddPrepared(
	d device.Device, key []byte, p Prepared, random io.Reader,
) (int, error) {
	if !h.isVolumeKey(key) {
		return 0, errors.New("add a key slot: not the key of this container")
	}

	number, offset, err := h.freeSlot()
	if err != nil {
		return 0, fmt.Errorf("add a key slot: %w", err)
	}

	k := keyslot{
		Type:    "luks2",
		KeySize: len(key),
		AF:      af{Type: "luks1", Stripes: stripes, Hash: "sha256"},
		Area: area{
			Type:       "raw",
			Offset:     offset,
			Size:       slotSize,
			Encryption: cipher,
			KeySize:    KeySize,
		},
		KDF: p.KDF,
	}
	if err := k.write(d, key, p.Key, random); err != nil {
		return 0, fmt.Errorf("add key slot %d: %w", number, err)
	}

	name := strconv.Itoa(number)
	h.meta.Keyslots[name] = k
	g := h.meta.Digests["0"]
	g.Keyslots = append(slices.Clone(g.Keyslots), name)
	h.meta.Digests["0"] = g
	return number, nil
}

// freeSlot returns the lowest number that is free, and room for a key slot.
func (h *Header) freeSlot() (number int, offset int64, err error) {
	used := h.Slots()
	for slices.Contains(used, number) {
		number++
	}

	start := 2 * h.size
	end := start + h.meta.Config.KeyslotsSize
	for offset = start; number < maxSlots && offset+slotSize <= end; offset += slotSize {
		taken := false
		for _, k := range h.meta.Keyslots {
			if offset < k.Area.Offset+k.Area.Size && k.Area.Offset < offset+slotSize {
				taken = true
			}
		}
		if !taken {
			return number, offset, nil
		}
	}
	return 0, 0, errors.New("there is no room")
}

// write writes the volume key, encrypted by the key of the slot.
func (k keyslot) write(d device.Device, key, by []byte, random io.Reader) error {
	if err := k.validate(); err != nil {
		return err
	}
	split, err := k.AF.split(key, random)
	if err != nil {
		return err
	}

	sealed := make([]byte, k.material())
	copy(sealed, split)
	x, err := xts.NewCipher(aes.NewCipher, by)
	if err != nil {
		return err
	}
	for i := 0; i < len(sealed); i += block {
		x.Encrypt(sealed[i:i+block], sealed[i:i+block], uint64(i/block))
	}

	if _, err := d.WriteAt(sealed, k.Area.Offset); err != nil {
		return err
	}
	return d.Sync()
}

// cipher encrypts the split key.
func (k keyslot) cipher(passphrase []byte) (*xts.Cipher, error) {
	key, err := k.KDF.key(passphrase, k.Area.KeySize)
	if err != nil {
		return nil, err
	}
	return xts.NewCipher(aes.NewCipher, key)
}

// Open returns the volume key, and the number of the key slot that the
// passphrase opens. It tries all slots, or only the given ones. The error is
// ErrNoSlot if it opens none of them.
func (h *Header) Open(r io.ReaderAt, passphrase []byte, slots ...int) ([]byte, int, error) {
	if len(slots) == 0 {
		slots = h.Slots()
	}

	errs := []error{ErrNoSlot}
	for _, number := range slots {
		k, ok := h.meta.Keyslots[strconv.Itoa(number)]
		if !ok {
			continue
		}
		key, err := k.open(r, passphrase)
		if err == nil && h.isVolumeKey(key) {
			return key, number, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key slot %d: %w", number, err))
		}
	}
	return nil, 0, errors.Join(errs...)
}

func (k keyslot) open(r io.ReaderAt, passphrase []byte) ([]byte, error) {
	split := make([]byte, k.material())
	if _, err := r.ReadAt(split, k.Area.Offset); err != nil {
		return nil, err
	}

	x, err := k.cipher(passphrase)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(split); i += block {
		x.Decrypt(split[i:i+block], split[i:i+block], uint64(i/block))
	}

	return k.AF.merge(split[:k.KeySize*k.AF.Stripes], k.KeySize), nil
}

// RemoveSlot overwrites a key slot on the device and removes it, and its number
// from the tokens. A token without a key slot is removed. The header has them
// until the next Write.
func (h *Header) RemoveSlot(d device.Device, number int) error {
	name := strconv.Itoa(number)
	k, ok := h.meta.Keyslots[name]
	if !ok {
		return fmt.Errorf("remove key slot %d: there is no such slot", number)
	}

	if _, err := d.WriteAt(make([]byte, k.Area.Size), k.Area.Offset); err != nil {
		return fmt.Errorf("remove key slot %d: %w", number, err)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("remove key slot %d: %w", number, err)
	}

	delete(h.meta.Keyslots, name)
	g := h.meta.Digests["0"]
	g.Keyslots = without(g.Keyslots, name)
	h.meta.Digests["0"] = g
	return h.detach(name)
}

// WriteData encrypts data and writes it to the container, before there is a
// mapping. at is in bytes from the start of the data. Both are whole sectors.
func (h *Header) WriteData(d io.WriterAt, key, data []byte, at int64) error {
	x, err := xts.NewCipher(aes.NewCipher, key)
	if err != nil {
		return fmt.Errorf("encrypt data: %w", err)
	}

	s := h.meta.Segments["0"]
	if at%int64(s.SectorSize) != 0 || len(data)%s.SectorSize != 0 {
		return fmt.Errorf("encrypt %d bytes at byte %d: want whole sectors of %d bytes",
			len(data), at, s.SectorSize)
	}
	sealed := make([]byte, len(data))
	for i := 0; i < len(data); i += s.SectorSize {
		// The kernel counts in sectors of 512 bytes, whatever the sector size.
		sector := s.IVTweak + uint64(at+int64(i))/512
		x.Encrypt(sealed[i:i+s.SectorSize], data[i:i+s.SectorSize], sector)
	}

	if _, err := d.WriteAt(sealed, s.Offset+at); err != nil {
		return fmt.Errorf("write encrypted data: %w", err)
	}
	return nil
}
