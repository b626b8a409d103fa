package luks

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// KeySize is the size of the volume key of a container that New makes: two keys
// of AES-256.
const KeySize = 64

const (
	// DataOffset is where the data of a container that New makes begins, as
	// cryptsetup has it. The header, its copy and the key slots are before it.
	DataOffset = 16 << 20

	// SectorSize is the unit in which the data of such a container is
	// encrypted, which is also the size of a block of the file system.
	SectorSize = 4096

	// KeyslotsOffset is where the key slots of such a container begin, after both
	// copies of the header.
	KeyslotsOffset = 2 * copySize

	copySize = 16 << 10 // of one copy of the header
	cipher   = "aes-xts-plain64"
)

// ErrNotLUKS says that a device has no LUKS2 header.
var ErrNotLUKS = errors.New("no LUKS2 header")

// ErrNoSlot says that a passphrase opens no key slot.
var ErrNoSlot = errors.New("the key opens no key slot")

// Header describes a container and has its key slots. It is the state of the
// last Read or Write, and the changes since.
type Header struct {
	UUID      uuid.UUID
	Label     string
	Subsystem string

	sequence uint64
	size     int64 // of one copy
	meta     metadata
}

// metadata is the JSON area (section 3). Each name is in decimal.
type metadata struct {
	Keyslots map[string]keyslot         `json:"keyslots"`
	Tokens   map[string]json.RawMessage `json:"tokens"`
	Segments map[string]segment         `json:"segments"`
	Digests  map[string]digest          `json:"digests"`
	Config   config                     `json:"config"`
}

type keyslot struct {
	Type     string `json:"type"`
	KeySize  int    `json:"key_size"`
	Priority *int   `json:"priority,omitempty"`
	AF       af     `json:"af"`
	Area     area   `json:"area"`
	KDF      KDF    `json:"kdf"`
}

type af struct {
	Type    string `json:"type"`
	Stripes int    `json:"stripes"`
	Hash    string `json:"hash"`
}

type area struct {
	Type       string `json:"type"`
	Offset     int64  `json:"offset,string"`
	Size       int64  `json:"size,string"`
	Encryption string `json:"encryption"`
	KeySize    int    `json:"key_size"`
}

type segment struct {
	Type       string   `json:"type"`
	Offset     int64    `json:"offset,string"`
	Size       string   `json:"size"`
	IVTweak    uint64   `json:"iv_tweak,string"`
	Encryption string   `json:"encryption"`
	SectorSize int      `json:"sector_size"`
	Flags      []string `json:"flags,omitempty"`

	// Integrity is set for dm-integrity, which is refused.
	Integrity json.RawMessage `json:"integrity,omitempty"`
}

type digest struct {
	Type       string   `json:"type"`
	Keyslots   []string `json:"keyslots"`
	Segments   []string `json:"segments"`
	Hash       string   `json:"hash"`
	Iterations int      `json:"iterations"`
	Salt       []byte   `json:"salt"`
	Digest     []byte   `json:"digest"`
}

type config struct {
	JSONSize     int64    `json:"json_size,string"`
	KeyslotsSize int64    `json:"keyslots_size,string"`
	Flags        []string `json:"flags,omitempty"`

	// Requirements are features that a reader must know; they are refused.
	Requirements json.RawMessage `json:"requirements,omitempty"`
}

// allowDiscards is the flag of a container that may tell the disk which blocks
// are free.
const allowDiscards = "allow-discards"

// The flags of a container whose blocks are encrypted by the processor that asks
// for them. Without, each block waits for two more threads, which takes longer
// than to encrypt it (docs/figures.md).
const (
	noReadQueue  = "no-read-workqueue"
	noWriteQueue = "no-write-workqueue"
)

// mappingFlags are the flags of a container that are options of its mapping, by
// the same names (section 3.6; cryptsetup-open(8), --persistent).
var mappingFlags = [...]string{
	allowDiscards, "same-cpu-crypt", "submit-from-crypt-cpus", noReadQueue, noWriteQueue,
}

// New returns the header of a new container, without key slots, and its volume
// key. Nothing is written.
func New(id uuid.UUID, label string, random io.Reader) (*Header, []byte, error) {
	secret := make([]byte, KeySize+32)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, nil, fmt.Errorf("make a volume key: %w", err)
	}
	key := secret[:KeySize:KeySize]

	d := digest{
		Type:       "pbkdf2",
		Keyslots:   []string{},
		Segments:   []string{"0"},
		Hash:       "sha256",
		Iterations: minIterations,
		Salt:       secret[KeySize:],
	}

	var err error
	d.Digest, err = pbkdf2.Key(sha256.New, string(key), d.Salt, d.Iterations, sha256.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("make a volume key: %w", err)
	}

	h := &Header{
		UUID:  id,
		Label: label,
		size:  copySize,
		meta: metadata{
			Keyslots: map[string]keyslot{},
			Tokens:   map[string]json.RawMessage{},
			Segments: map[string]segment{"0": {
				Type:       "crypt",
				Offset:     DataOffset,
				Size:       "dynamic",
				Encryption: cipher,
				SectorSize: SectorSize,
			}},
			Digests: map[string]digest{"0": d},
			Config: config{
				JSONSize:     copySize - binarySize,
				KeyslotsSize: DataOffset - KeyslotsOffset,
				Flags:        []string{allowDiscards, noReadQueue, noWriteQueue},
			},
		},
	}

	return h, key, nil
}

// DataOffset returns where the data begins on the device, in bytes.
func (h *Header) DataOffset() int64 { return h.meta.Segments["0"].Offset }

// DataSize returns the size of the data on a device of size bytes, in whole
// sectors. It is not positive if the device is too small.
func (h *Header) DataSize(size int64) int64 {
	return (size - h.DataOffset()) / SectorSize * SectorSize
}

// Table returns the parameters of the dm-crypt target that maps the data of the
// container on device (Linux, device-mapper/dm-crypt.rst). The key is in them,
// so they are a secret.
func (h *Header) Table(device string, key []byte) string {
	s := h.meta.Segments["0"]
	options := []string{fmt.Sprintf("sector_size:%d", s.SectorSize)}
	for _, flag := range mappingFlags {
		if slices.Contains(h.meta.Config.Flags, flag) {
			options = append(options, strings.ReplaceAll(flag, "-", "_"))
		}
	}

	text := fmt.Sprintf("%s %x %d %s %d %d", cipher, key, s.IVTweak, device, s.Offset/512,
		len(options))
	for _, o := range options {
		text += " " + o
	}
	return text
}

// Slots lists the numbers of the key slots.
func (h *Header) Slots() []int { return numbers(h.meta.Keyslots) }

// Tokens lists the numbers of the tokens.
func (h *Header) Tokens() []int { return numbers(h.meta.Tokens) }

// Token returns a token as JSON, nil if it is absent.
func (h *Header) Token(number int) json.RawMessage {
	return h.meta.Tokens[strconv.Itoa(number)]
}

// SetToken adds or replaces a token. It is a JSON object whose fields "type"
// and "keyslots" say what opens which key slots (section 3.5); the others
// belong to the type. A nil token is removed.
func (h *Header) SetToken(number int, token any) error {
	name := strconv.Itoa(number)
	if token == nil {
		delete(h.meta.Tokens, name)
		return nil
	}

	text, err := json.Marshal(token)
	if err != nil {
		return fmt.Errorf("token %d: %w", number, err)
	}
	if err := h.meta.validateToken(text); err != nil {
		return fmt.Errorf("token %d: %w", number, err)
	}

	h.meta.Tokens[name] = text
	return nil
}

// isVolumeKey reports whether key is the key of the container.
func (h *Header) isVolumeKey(key []byte) bool {
	d := h.meta.Digests["0"]
	sum, err := derive(d.Hash, key, d.Salt, d.Iterations, len(d.Digest))
	return err == nil && subtle.ConstantTimeCompare(sum, d.Digest) == 1
}

// numbers returns the keys of a map of the metadata, sorted. They were
// validated.
func numbers[V any](m map[string]V) []int {
	var out []int
	for name := range m {
		n, _ := strconv.Atoi(name)
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// detach removes the number of a key slot from the tokens.
func (h *Header) detach(slot string) error {
	for name, text := range h.meta.Tokens {
		var token map[string]any
		if err := json.Unmarshal(text, &token); err != nil {
			return fmt.Errorf("token %s: %w", name, err)
		}

		var left []any
		slots, _ := token["keyslots"].([]any)
		for _, s := range slots {
			if s != slot {
				left = append(left, s)
			}
		}
		if len(left) == len(slots) {
			continue
		}
		if len(left) == 0 {
			delete(h.meta.Tokens, name)
			continue
		}

		token["keyslots"] = left
		changed, err := json.Marshal(token)
		if err != nil {
			return fmt.Errorf("token %s: %w", name, err)
		}
		h.meta.Tokens[name] = changed
	}
	return nil
}

func without(list []string, drop string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == drop })
}
