// Package pcrsig predicts what systemd-stub measures of a UKI, and signs it: a
// TPM then gives a secret to every system that the same key has signed (systemd,
// systemd-measure(1); TPM 2.0 Library, Part 3, TPM2_PolicyAuthorize).
//
//	UKI --Value--> PCR 11 --Policy--> digest --Sign--> .pcrsig, and .pcrpkey
//
// The stub shows both sections to the initramfs as the files SignaturesPath and
// KeyPath. The policies are for the state of PCR 11 in our initramfs, which
// measures no boot phase: what systemd-measure calls the phase ":".
package pcrsig

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/firmware/uki"
)

// The sections of a UKI with signatures, and with the public key that new
// secrets are sealed for.
const (
	Section    = ".pcrsig"
	KeySection = ".pcrpkey"
)

// The files that systemd-stub makes of these sections.
const (
	SignaturesPath = "/.extra/tpm2-pcr-signature.json"
	KeyPath        = "/.extra/tpm2-pcr-public-key.pem"
)

// PCR is the register that systemd-stub measures a UKI to.
const PCR = 11

// keyBits is the only size of RSA keys that every TPM supports.
const keyBits = 2048

// measured lists the sections that the stub measures, in its order
// (systemd, src/fundamental/uki.h).
var measured = [...]string{
	".linux", ".osrel", ".cmdline", ".initrd", ".ucode", ".splash", ".dtb", ".uname", ".sbat",
	KeySection,
}

// Value returns what PCR 11 (SHA-256) is in the initramfs of a UKI.
func Value(sections uki.Sections) [sha256.Size]byte {
	var value [sha256.Size]byte
	extend := func(data []byte) {
		digest := sha256.Sum256(data)
		value = sha256.Sum256(append(value[:], digest[:]...))
	}

	for _, name := range measured {
		if data, ok := sections.Section(name); ok {
			extend([]byte(name + "\x00"))
			extend(data)
		}
	}
	return value
}

// Policy returns the digest of a policy that wants PCR 11 to have the value
// (Part 3, TPM2_PolicyPCR).
func Policy(value [sha256.Size]byte) [sha256.Size]byte {
	var policy [sha256.Size]byte
	return hash(policy, uint32(ccPolicyPCR), selection(PCR), hash(value))
}

// Signatures are the signed policies of a UKI, by the hash of their PCRs.
type Signatures struct {
	SHA256 []Signature `json:"sha256"`

	// Epochs allow to raise the number at EpochIndex, up to the security epoch of
	// the UKI. systemd ignores them.
	Epochs []Signature `json:"loamEpochs,omitempty"`
}

// Signature is a signed policy.
type Signature struct {
	// PCRs is empty for a policy of another kind.
	PCRs []int `json:"pcrs,omitempty"`

	// Key is the fingerprint of the key; see [Fingerprint].
	Key string `json:"pkfp"`

	// Policy is the digest of the policy, in hex.
	Policy string `json:"pol"`

	// Signature is RSASSA-PKCS1-v1_5 with SHA-256.
	Signature []byte `json:"sig"`
}

// Find returns the key's signature of a policy, nil if there is no valid one.
func (s Signatures) Find(key *rsa.PublicKey, policy [sha256.Size]byte) []byte {
	digest := sha256.Sum256(policy[:])
	for _, one := range slices.Concat(s.SHA256, s.Epochs) {
		if one.Key == Fingerprint(key) && one.Policy == hex.EncodeToString(policy[:]) &&
			rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], one.Signature) == nil {
			return one.Signature
		}
	}
	return nil
}

// Keys returns the fingerprints of the keys whose signatures are in the content
// of a section Section, valid or not.
func Keys(text []byte) ([]string, error) {
	var all Signatures
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("section %s: %w", Section, err)
	}

	var keys []string
	for _, one := range all.SHA256 {
		keys = append(keys, one.Key)
	}
	return keys, nil
}

// ReadKeys returns the fingerprints of the keys that have signed a UKI, none if it
// has no section Section.
func ReadKeys(r io.ReaderAt) ([]string, error) {
	text, err := uki.ReadSection(r, Section)
	if err != nil {
		return nil, nil
	}
	return Keys(text)
}

// Fingerprint names a key: the SHA-256 of its RSAPublicKey (RFC 8017, appendix
// A.1.1), in hex.
func Fingerprint(key *rsa.PublicKey) string {
	digest := sha256.Sum256(x509.MarshalPKCS1PublicKey(key))
	return hex.EncodeToString(digest[:])
}

// ParseKey reads a public key from PEM.
func ParseKey(text []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("want a PEM file with a PUBLIC KEY")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	return CheckKey(public)
}

// CheckKey refuses a key that not every TPM supports.
func CheckKey(public crypto.PublicKey) (*rsa.PublicKey, error) {
	const usual = 1<<16 + 1
	key, ok := public.(*rsa.PublicKey)
	if !ok || key.N.BitLen() != keyBits || key.E != usual {
		return nil, fmt.Errorf("want an RSA key of %d bits with the exponent %d, which every TPM "+
			"supports", keyBits, usual)
	}
	return key, nil
}

// Sign returns an unsigned UKI with the policies that keys have signed. Its
// KeySection has the first key; what it had before is replaced. Without keys,
// both sections are gone.
func Sign(image []byte, keys []crypto.Signer) ([]byte, error) {
	for _, name := range []string{Section, KeySection} {
		var err error
		image, err = uki.Remove(image, name)
		if err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return image, nil
	}

	der, err := x509.MarshalPKIXPublicKey(keys[0].Public())
	if err != nil {
		return nil, err
	}
	image, err = uki.Replace(image, uki.Section{
		Name: KeySection,
		Data: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
	})
	if err != nil {
		return nil, err
	}

	sections, err := uki.Parse(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	text, err := signatures(Policy(Value(sections)), epochOf(sections), keys)
	if err != nil {
		return nil, fmt.Errorf("sign the policy of PCR %d: %w", PCR, err)
	}
	return uki.Replace(image, uki.Section{Name: Section, Data: text})
}

// epochOf returns the security epoch in the command line of a UKI.
func epochOf(sections uki.Sections) int {
	text, _ := sections.Section(".cmdline")
	for word := range strings.FieldsSeq(string(text)) {
		if value, ok := strings.CutPrefix(word, "loam.epoch="); ok {
			epoch, _ := strconv.Atoi(value)
			return min(max(epoch, 0), maxEpoch)
		}
	}
	return 0
}

// maxEpoch is the highest number that fits into the index.
const maxEpoch = 64

// signatures returns the content of Section.
func signatures(policy [sha256.Size]byte, epoch int, keys []crypto.Signer) ([]byte, error) {
	var all Signatures
	for _, key := range keys {
		public, err := CheckKey(key.Public())
		if err != nil {
			return nil, err
		}
		one, err := sign(key, policy)
		if err != nil {
			return nil, err
		}
		one.PCRs = []int{PCR}
		all.SHA256 = append(all.SHA256, one)

		for n := 1; n <= epoch; n++ {
			for _, isWritten := range []bool{false, true} {
				one, err := sign(key, EpochPolicy(public, n, isWritten))
				if err != nil {
					return nil, err
				}
				all.Epochs = append(all.Epochs, one)
			}
		}
	}
	return json.Marshal(all)
}

// sign signs a policy with a key that CheckKey allows.
func sign(key crypto.Signer, policy [sha256.Size]byte) (Signature, error) {
	public, err := CheckKey(key.Public())
	if err != nil {
		return Signature{}, err
	}
	digest := sha256.Sum256(policy[:])
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	return Signature{
		Key:       Fingerprint(public),
		Policy:    hex.EncodeToString(policy[:]),
		Signature: signature,
	}, err
}

// Check makes sure that the key in a UKI has signed the policy of the UKI. A UKI
// with neither is fine.
func Check(sections uki.Sections) error {
	text, signed := sections.Section(Section)
	public, keyed := sections.Section(KeySection)
	switch {
	case !signed && !keyed:
		return nil
	case signed != keyed:
		return fmt.Errorf("sections %s and %s: one without the other", Section, KeySection)
	}

	key, err := ParseKey(public)
	if err != nil {
		return fmt.Errorf("section %s: %w", KeySection, err)
	}
	if !Signed(text, key, Policy(Value(sections))) {
		return fmt.Errorf("section %s: the key in %s has not signed this UKI", Section, KeySection)
	}
	return nil
}

// Signed reports whether the content of a section Section has the key's
// signature of a policy.
func Signed(text []byte, key *rsa.PublicKey, policy [sha256.Size]byte) bool {
	var all Signatures
	return json.Unmarshal(text, &all) == nil && all.Find(key, policy) != nil
}
