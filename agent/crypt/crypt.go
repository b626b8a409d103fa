package crypt

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/luks"
)

// Mode says which key opens the container at each boot.
type Mode string

const (
	// None leaves the state as it is: not encrypted.
	None Mode = ""
	// TPM is a key that the machine's TPM has sealed.
	TPM Mode = "tpm"
	// Key is a key that an operator gives to the machine.
	Key Mode = "key"
	// Recovery is the key that was shown when the container was made. No
	// container is made with this mode.
	Recovery Mode = "recovery"
)

// Valid reports whether a container can be made with the mode.
func (m Mode) Valid() bool { return m == TPM || m == Key }

// Sealer is the machine's TPM; see [tpm.Sealer].
type Sealer interface {
	Seal(secret []byte, key *rsa.PublicKey) (tpm.Sealed, error)
	Unseal(sealed tpm.Sealed) ([]byte, error)
}

// Machine is what opens containers on a machine.
type Machine struct {
	TPM Sealer

	// Key is the key that has signed the running system (firmware/pcrsig), nil if
	// the system is not signed. Everywhere reports whether it has signed every
	// system that the machine may start: only then is a secret sealed for it.
	Key        *rsa.PublicKey
	Everywhere func() bool

	// SecureBoot reports whether Secure Boot is on.
	SecureBoot bool

	// Given lists the keys that an operator has given to the machine.
	Given func() []Given

	Random io.Reader
}

// Given is a key that an operator has given to the machine.
type Given struct {
	// Place names where it was found.
	Place string
	Key   []byte
}

// RecoveryName is where an encrypted state has the key slot of its recovery key
// (luks.Prepared), relative to the root directory.
const RecoveryName = "var/lib/loam/recovery-slot.json"

// Types of tokens.
const (
	tokenTPM      = "loam-tpm2"
	tokenKey      = "loam-key"
	tokenRecovery = "loam-recovery"
)

// token says what opens a key slot. SecureBoot and Sealed are for tokenTPM.
type token struct {
	Type     string   `json:"type"`
	Keyslots []string `json:"keyslots"`

	// SecureBoot reports whether Secure Boot was on.
	SecureBoot bool       `json:"secureBoot,omitempty"`
	Sealed     tpm.Sealed `json:"sealed,omitzero"`
}

// keySize is the size of a random key, in bytes.
const keySize = 32

// ErrNoKey means that no operator has given a key to the machine.
var ErrNoKey = errors.New("nobody gave a key to this machine")

// Format makes a container on a partition as the mark says, and returns its
// recovery key. The data begins with the mark of a plain partition: a file
// system is still to be made. The container is there at once or not at all;
// until then the partition keeps its mark.
func (m Machine) Format(d device.Device, mark Mark) (recovery string, err error) {
	h, key, err := luks.New(uuid.New(), partitions.StateLabel, m.Random)
	if err != nil {
		return "", err
	}

	// An older container may have had more key slots.
	if err := wipe(d, luks.DataOffset); err != nil {
		return "", err
	}

	switch mark.Encrypt {
	case TPM:
		err = m.addSealed(d, h, key)
	case Key:
		err = m.addGiven(d, h, key)
	default:
		err = fmt.Errorf("unknown way %q to encrypt", mark.Encrypt)
	}
	if err != nil {
		return "", err
	}

	recovery, err = m.addRecovery(d, h, key)
	if err != nil {
		return "", err
	}

	if _, err := d.WriteAt([]byte(trace), traceOffset); err != nil {
		return "", err
	}
	start := make([]byte, luks.SectorSize)
	copy(start, Mark{Reset: mark.Reset}.Bytes())
	if err := h.WriteData(d, key, start, 0); err != nil {
		return "", err
	}
	if err := d.Sync(); err != nil {
		return "", err
	}
	return recovery, h.Write(d)
}

// addSealed adds a key slot with a random key that the TPM has sealed.
func (m Machine) addSealed(d device.Device, h *luks.Header, key []byte) error {
	secret := make([]byte, keySize)
	if _, err := io.ReadFull(m.Random, secret); err != nil {
		return err
	}
	sealed, err := m.TPM.Seal(secret, m.sealKey(tokens(h, tokenTPM)))
	if err != nil {
		return hint.With(err, "switch the TPM 2.0 on in the firmware's setup, or use a key: "+
			"state.encrypt: key")
	}

	return m.add(d, h, key, secret, luks.ForKeys(), token{
		Type:       tokenTPM,
		SecureBoot: m.SecureBoot,
		Sealed:     sealed,
	})
}

// sealKey returns the key that a secret is sealed for: Key, if a secret before
// was, or if all systems that the machine may start are signed by it; nil
// otherwise.
func (m Machine) sealKey(before []token) *rsa.PublicKey {
	if m.Key == nil {
		return nil
	}
	had := slices.ContainsFunc(before, func(t token) bool {
		return t.pcrKey() == pcrsig.Fingerprint(m.Key)
	})
	if had || m.Everywhere() {
		return m.Key
	}
	return nil
}

// addGiven adds a key slot with the first key that an operator gave.
func (m Machine) addGiven(d device.Device, h *luks.Header, key []byte) error {
	given := m.Given()
	if len(given) == 0 {
		return hint.With(ErrNoKey, "%s", HowToGive)
	}
	return m.add(d, h, key, given[0].Key, luks.ForPassphrases(), token{Type: tokenKey})
}

// addRecovery adds a key slot with a new recovery key.
func (m Machine) addRecovery(d device.Device, h *luks.Header, key []byte) (string, error) {
	secret := make([]byte, 20)
	if _, err := io.ReadFull(m.Random, secret); err != nil {
		return "", err
	}
	text := spell(secret)
	err := m.add(d, h, key, []byte(text), luks.ForKeys(), token{Type: tokenRecovery})
	return text, err
}

// add adds a key slot and its token, which has the same number.
func (m Machine) add(
	d device.Device, h *luks.Header, key, passphrase []byte, kdf luks.KDF, t token,
) error {
	slot, err := h.AddSlot(d, key, passphrase, kdf, m.Random)
	if err != nil {
		return err
	}
	t.Keyslots = []string{strconv.Itoa(slot)}
	return h.SetToken(slot, t)
}

// Opened is an open container.
type Opened struct {
	Header *luks.Header

	// VolumeKey is the key for [luks.Header.Table].
	VolumeKey []byte

	// By is the key that opened the container, Place where it was found if an
	// operator gave it.
	By    Mode
	Place string
}

// SealedFor returns the fingerprint of the key that must have signed a system for
// the TPM to open the container for it (firmware/pcrsig), "" if none must.
func (o Opened) SealedFor() string {
	for _, t := range tokens(o.Header, tokenTPM) {
		return t.pcrKey()
	}
	return ""
}

// HowToGive is the hint for a machine that needs a key.
const HowToGive = "give the key to the machine: in a file loam-state.key on a USB disk with " +
	"FAT32, or in the credential loam.state-key of its firmware"

// Open finds the key of a container. The TPM goes first.
func (m Machine) Open(d device.Device) (Opened, error) {
	h, err := luks.Read(d)
	if err != nil {
		return Opened{}, err
	}

	var errs []error
	for _, t := range tokens(h, tokenTPM) {
		secret, err := m.TPM.Unseal(t.Sealed)
		if errors.Is(err, tpm.ErrFirmware) && t.SecureBoot && !m.SecureBoot {
			err = fmt.Errorf("%w: Secure Boot was on, and is off", err)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		key, _, err := h.Open(d, secret, t.slots()...)
		if err == nil {
			return Opened{Header: h, VolumeKey: key, By: TPM}, nil
		}
		errs = append(errs, fmt.Errorf("the key from the TPM: %w", err))
	}

	for _, g := range m.Given() {
		key, slot, err := h.Open(d, g.Key)
		if normal := normalize(g.Key); err != nil && normal != string(g.Key) {
			key, slot, err = h.Open(d, []byte(normal))
		}
		if err == nil {
			return Opened{Header: h, VolumeKey: key, By: openedBy(h, slot), Place: g.Place}, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", g.Place, err))
	}

	if len(errs) == 0 {
		errs = append(errs, ErrNoKey)
	}
	return Opened{}, hint.With(fmt.Errorf("no key opens it: %w", join(errs)), "%s", HowToGive)
}

// Reseal replaces the key that the TPM sealed by one that is sealed to the
// present state of the firmware, and for the key of the running system. It does
// nothing if the container has none, or if the TPM opened it as it would then.
func (m Machine) Reseal(d device.Device, o Opened) (done bool, err error) {
	old := tokens(o.Header, tokenTPM)
	if len(old) == 0 || (o.By != Recovery && !m.narrows(o)) {
		return false, nil
	}

	// The new key slot is durable before the old one goes.
	if err := m.addSealed(d, o.Header, o.VolumeKey); err != nil {
		return false, err
	}
	if err := o.Header.Write(d); err != nil {
		return false, err
	}
	for _, t := range old {
		for _, slot := range t.slots() {
			if err := o.Header.RemoveSlot(d, slot); err != nil {
				return true, err
			}
		}
	}
	return true, o.Header.Write(d)
}

// narrows reports whether the running system is signed by a key that the TPM did
// not ask for. All systems of the machine must be signed by it before the TPM
// asks for it: a fallback has to open the state, too.
func (m Machine) narrows(o Opened) bool {
	return o.By == TPM && m.Key != nil && o.SealedFor() != pcrsig.Fingerprint(m.Key) &&
		m.Everywhere()
}

// pcrKey returns the fingerprint of the key that the sealed secret is for.
func (t token) pcrKey() string {
	if t.Sealed.Key == nil {
		return ""
	}
	key, err := x509.ParsePKCS1PublicKey(t.Sealed.Key)
	if err != nil {
		return ""
	}
	return pcrsig.Fingerprint(key)
}

// openedBy returns what the key of a key slot is.
func openedBy(h *luks.Header, slot int) Mode {
	for _, t := range tokens(h, tokenRecovery) {
		if slices.Contains(t.slots(), slot) {
			return Recovery
		}
	}
	return Key
}

// tokens returns the tokens of a type.
func tokens(h *luks.Header, kind string) []token {
	var out []token
	for _, number := range h.Tokens() {
		var t token
		if json.Unmarshal(h.Token(number), &t) == nil && t.Type == kind {
			out = append(out, t)
		}
	}
	return out
}

// slots returns the numbers of the token's key slots.
func (t token) slots() []int {
	var out []int
	for _, name := range t.Keyslots {
		if n, err := strconv.Atoi(name); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// spell writes a recovery key as a person can copy it: groups of four letters
// and digits (RFC 4648, base32).
func spell(secret []byte) string {
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	var groups []string
	for part := range slices.Chunk([]byte(text), 4) {
		groups = append(groups, string(part))
	}
	return strings.Join(groups, "-")
}

// normalize returns a recovery key as spell has written it, whatever the case,
// and however the groups were separated when a person copied it.
func normalize(typed []byte) string {
	var plain []byte
	for _, c := range bytes.ToUpper(typed) {
		if (c >= 'A' && c <= 'Z') || (c >= '2' && c <= '7') {
			plain = append(plain, c)
		}
	}
	var groups []string
	for part := range slices.Chunk(plain, 4) {
		groups = append(groups, string(part))
	}
	return strings.Join(groups, "-")
}

// join makes one line of errors.
func join(errs []error) error {
	all := errs[0]
	for _, err := range errs[1:] {
		all = fmt.Errorf("%w; %w", all, err)
	}
	return all
}
