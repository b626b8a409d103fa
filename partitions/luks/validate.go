package luks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Limits of what is read. Those of the key derivation are cryptsetup's.
const (
	minIterations = 1000
	maxIterations = 1 << 31 >> 1
	maxMemory     = 4 << 20 // KiB
	maxSlots      = 32
	maxStripes    = 1 << 16
	maxHash       = 64
)

// validate checks what the other functions of the package rely on. size is the
// size of one copy of the header.
func (m *metadata) validate(size int64) error {
	c := m.Config
	if c.JSONSize != size-binarySize {
		return fmt.Errorf("config: json_size %d: want %d", c.JSONSize, size-binarySize)
	}
	if len(c.Requirements) != 0 {
		return fmt.Errorf("needs a feature that is not supported: %.100s", c.Requirements)
	}

	s, ok := m.Segments["0"]
	if !ok || len(m.Segments) != 1 {
		return fmt.Errorf("%d segments: want one", len(m.Segments))
	}
	if err := s.validate(); err != nil {
		return fmt.Errorf("segment: %w", err)
	}
	if c.KeyslotsSize < 0 || c.KeyslotsSize > s.Offset-2*size {
		return fmt.Errorf("config: keyslots_size %d: the data is at byte %d", c.KeyslotsSize,
			s.Offset)
	}

	if err := m.validateKeyslots(2*size, 2*size+c.KeyslotsSize); err != nil {
		return err
	}
	for name, token := range m.Tokens {
		if err := validateName(name); err != nil {
			return fmt.Errorf("token %q: %w", name, err)
		}
		if err := m.validateToken(token); err != nil {
			return fmt.Errorf("token %s: %w", name, err)
		}
	}
	return m.validateDigest()
}

func (s segment) validate() error {
	switch {
	case s.Type != "crypt" || s.Encryption != cipher || s.Size != "dynamic":
		return fmt.Errorf("type %q, encryption %q, size %q: want crypt, %s, dynamic", s.Type,
			s.Encryption, s.Size, cipher)
	case !slices.Contains([]int{512, 1024, 2048, 4096}, s.SectorSize):
		return fmt.Errorf("sectors of %d bytes", s.SectorSize)
	case s.Offset <= 0 || s.Offset%4096 != 0:
		return fmt.Errorf("offset %d", s.Offset)
	case len(s.Flags) != 0 || len(s.Integrity) != 0:
		return errors.New("flags or integrity, which are not supported")
	}
	return nil
}

// validateKeyslots checks that key slots are between start and end, and do not
// overlap.
func (m *metadata) validateKeyslots(start, end int64) error {
	if len(m.Keyslots) > maxSlots {
		return fmt.Errorf("%d key slots: want at most %d", len(m.Keyslots), maxSlots)
	}

	var areas []area
	for name, k := range m.Keyslots {
		if err := validateName(name); err != nil {
			return fmt.Errorf("key slot %q: %w", name, err)
		}
		if err := k.validate(); err != nil {
			return fmt.Errorf("key slot %s: %w", name, err)
		}
		if k.Area.Offset < start || k.Area.Size > end-k.Area.Offset {
			return fmt.Errorf("key slot %s: at byte %d, of %d bytes", name, k.Area.Offset,
				k.Area.Size)
		}
		areas = append(areas, k.Area)
	}

	slices.SortFunc(areas, func(a, b area) int { return int(a.Offset - b.Offset) })
	for i := 1; i < len(areas); i++ {
		if areas[i-1].Offset+areas[i-1].Size > areas[i].Offset {
			return fmt.Errorf("key slots overlap at byte %d", areas[i].Offset)
		}
	}
	return nil
}

func (k keyslot) validate() error {
	switch {
	case k.Type != "luks2" || k.AF.Type != "luks1" || k.Area.Type != "raw":
		return fmt.Errorf("type %q, af %q, area %q: want luks2, luks1, raw", k.Type, k.AF.Type,
			k.Area.Type)
	case k.Area.Encryption != cipher:
		return fmt.Errorf("encryption %q: want %s", k.Area.Encryption, cipher)
	case !validKeySize(k.KeySize) || !validKeySize(k.Area.KeySize):
		return fmt.Errorf("keys of %d and %d bytes", k.KeySize, k.Area.KeySize)
	case k.AF.Stripes < 1 || k.AF.Stripes > maxStripes || newHash(k.AF.Hash) == nil:
		return fmt.Errorf("%d stripes by hash %q", k.AF.Stripes, k.AF.Hash)
	case k.Area.Offset < 0 || k.Area.Offset%4096 != 0 || k.Area.Size < k.material():
		return fmt.Errorf("area at byte %d, of %d bytes", k.Area.Offset, k.Area.Size)
	}
	return k.KDF.validate()
}

// validKeySize reports whether aes-xts has keys of n bytes.
func validKeySize(n int) bool { return n == 32 || n == 64 }

func (m *metadata) validateDigest() error {
	d, ok := m.Digests["0"]
	if !ok || len(m.Digests) != 1 {
		return fmt.Errorf("%d digests: want one", len(m.Digests))
	}

	switch {
	case d.Type != "pbkdf2" || newHash(d.Hash) == nil:
		return fmt.Errorf("digest: type %q, hash %q", d.Type, d.Hash)
	case d.Iterations < 1 || d.Iterations > maxIterations:
		return fmt.Errorf("digest: %d iterations", d.Iterations)
	case len(d.Digest) < 16 || len(d.Digest) > maxHash:
		return fmt.Errorf("digest: %d bytes", len(d.Digest))
	case !slices.Equal(d.Segments, []string{"0"}):
		return fmt.Errorf("digest: of segments %q", d.Segments)
	}

	for _, name := range d.Keyslots {
		if _, ok := m.Keyslots[name]; !ok {
			return fmt.Errorf("digest: there is no key slot %q", name)
		}
	}
	return nil
}

func (m *metadata) validateToken(text json.RawMessage) error {
	var t struct {
		Type     string   `json:"type"`
		Keyslots []string `json:"keyslots"`
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	if t.Type == "" || t.Keyslots == nil {
		return errors.New("no type or keyslots")
	}

	for _, name := range t.Keyslots {
		if _, ok := m.Keyslots[name]; !ok {
			return fmt.Errorf("there is no key slot %q", name)
		}
	}
	return nil
}

func validateName(name string) error {
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 || n >= maxSlots || strconv.Itoa(n) != name {
		return fmt.Errorf("want a number from 0 to %d", maxSlots-1)
	}
	return nil
}
