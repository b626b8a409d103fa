package tpm

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"github.com/loam-os/loam/firmware/pcrsig"
)

// sign returns the policy of PCR 11 after the measurements, signed.
func sign(t *testing.T, key *rsa.PrivateKey, measurements ...[]byte) pcrsig.Signature {
	t.Helper()
	var value [sha256.Size]byte
	for _, data := range measurements {
		digest := sha256.Sum256(data)
		value = sha256.Sum256(append(value[:], digest[:]...))
	}
	policy := pcrsig.Policy(value)
	digest := sha256.Sum256(policy[:])
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return pcrsig.Signature{
		PCRs:      []int{pcrsig.PCR},
		Key:       pcrsig.Fingerprint(&key.PublicKey),
		Policy:    hex.EncodeToString(policy[:]),
		Signature: signature,
	}
}

// measure extends PCR 11 as the stub of a system does.
func (c *chip) measure(data []byte) {
	c.Helper()
	digest := sha256.Sum256(data)
	c.run(0x182, pcrsig.PCR, bytesOf(uint32(1), uint16(0x0b), digest[:]))
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestASecretForTheSystemsOfAKey: two systems of the key get it, others do not,
// whatever they have beside them.
func TestASecretForTheSystemsOfAKey(t *testing.T) {
	one, two, other := []byte("system 1"), []byte("system 2"), []byte("system 3")
	key, stranger := newKey(t), newKey(t)
	all := pcrsig.Signatures{SHA256: []pcrsig.Signature{
		sign(t, stranger, one), sign(t, key, one), sign(t, key, two), sign(t, stranger, other),
	}}

	c := newChip(t)
	boot := func(system []byte) {
		c.stop()
		c.start()
		c.measure(system)
	}
	unseal := func(sealed Sealed, with pcrsig.Signatures) error {
		secret, err := Sealer{Open: c.number().Open, Signed: with}.Unseal(sealed)
		if err == nil && string(secret) != "secret" {
			t.Errorf("the secret is %q", secret)
		}
		return err
	}

	boot(one)
	sealer := Sealer{Open: c.number().Open, Signed: all}
	sealed, err := sealer.Seal([]byte("secret"), &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	plain := c.seal("secret")
	if err := sealer.Check(&key.PublicKey); err != nil {
		t.Error(err)
	}
	for range 5 { // Nothing is left in the TPM.
		if err := unseal(sealed, all); err != nil {
			t.Error(err)
		}
	}
	if err := unseal(sealed, pcrsig.Signatures{}); !errors.Is(err, ErrUnsigned) {
		t.Errorf("without signatures: %v", err)
	}
	if err := sealer.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := unseal(sealed, all); !errors.Is(err, ErrLocked) {
		t.Errorf("after Lock: %v", err)
	}

	boot(two)
	if err := unseal(sealed, all); err != nil {
		t.Errorf("another system of the key: %v", err)
	}
	c.extend(statePCR)
	if err := unseal(sealed, all); !errors.Is(err, ErrFirmware) {
		t.Errorf("with other keys in the firmware: %v", err)
	}

	boot(other)
	if err := unseal(sealed, all); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a system of another key: %v", err)
	}
	lied := sealed
	lied.Key = nil
	if err := unseal(lied, all); err == nil {
		t.Error("without its key it is open")
	}
	if _, err := sealer.Seal([]byte("secret"), &key.PublicKey); !errors.Is(err, ErrUnsigned) {
		t.Errorf("sealed by a system of another key: %v", err)
	}
	if err := sealer.Check(&key.PublicKey); !errors.Is(err, ErrUnsigned) {
		t.Errorf("another system is signed: %v", err)
	}
	if err := unseal(plain, all); err != nil {
		t.Errorf("a secret without a key: %v", err)
	}
}

// TestTheTPMVerifiesTheSignature, whatever our code thinks of it.
func TestTheTPMVerifiesTheSignature(t *testing.T) {
	system := []byte("system")
	key, stranger := newKey(t), newKey(t)
	c := newChip(t)
	c.measure(system)

	forged := sign(t, stranger, system)
	err := c.sealer().with(func(t transport.TPM, _ *tpm2.CreatePrimaryResponse) error {
		session, end, err := tpm2.PolicySession(t, tpm2.TPMAlgSHA256, nonceSize)
		if err != nil {
			return err
		}
		defer func() { _ = end() }()
		value, err := readPCR(t, pcrsig.PCR)
		if err != nil {
			return err
		}
		return authorize(t, session, &key.PublicKey, pcrsig.Policy([sha256.Size]byte(value)),
			forged.Signature)
	})
	if !errors.Is(err, tpm2.TPMRCSignature) {
		t.Errorf("error %v", err)
	}
	if bytes.Equal(forged.Signature, sign(t, key, system).Signature) {
		t.Error("the keys are the same")
	}
}

// signEpochs signs the policies that raise the number.
func signEpochs(t *testing.T, key *rsa.PrivateKey, epochs ...int) (all pcrsig.Signatures) {
	t.Helper()
	for _, epoch := range epochs {
		for _, isWritten := range []bool{false, true} {
			policy := pcrsig.EpochPolicy(&key.PublicKey, epoch, isWritten)
			digest := sha256.Sum256(policy[:])
			signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			all.Epochs = append(all.Epochs, pcrsig.Signature{
				Key:       pcrsig.Fingerprint(&key.PublicKey),
				Policy:    hex.EncodeToString(policy[:]),
				Signature: signature,
			})
		}
	}
	return all
}

// TestANumberThatOnlyAKeyRaises to what it has signed, and only before the system
// runs.
func TestANumberThatOnlyAKeyRaises(t *testing.T) {
	key := newKey(t)
	c := newChip(t)
	n := SignedNumber{
		Open:   c.number().Open,
		Key:    &key.PublicKey,
		Signed: signEpochs(t, key, 1, 2, 3),
	}
	has := func(want int) {
		t.Helper()
		if got, err := n.Read(); err != nil || got != want {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
	}

	has(0)
	for _, to := range []int{0, 1, 1, 3, 2} {
		if err := n.Raise(to); err != nil {
			t.Errorf("raise to %d: %v", to, err)
		}
	}
	has(3)
	if err := n.Raise(4); !errors.Is(err, ErrUnsigned) {
		t.Errorf("to what is not signed: %v", err)
	}

	c.stop()
	c.start()
	has(3)
	if err := c.sealer().Lock(); err != nil {
		t.Fatal(err)
	}
	n.Signed = signEpochs(t, key, 5)
	if err := n.Raise(5); !errors.Is(err, ErrLocked) {
		t.Errorf("after Lock: %v", err)
	}
	has(3)

	// Another key has another policy, so its index is not this one.
	other := newKey(t)
	stranger := SignedNumber{
		Open:   c.number().Open,
		Key:    &other.PublicKey,
		Signed: signEpochs(t, other, 9),
	}
	if _, err := stranger.Read(); !errors.Is(err, ErrTaken) {
		t.Errorf("read by another key: %v", err)
	}
	if err := stranger.Raise(9); !errors.Is(err, ErrTaken) {
		t.Errorf("raised by another key: %v", err)
	}
}

// TestASignatureIsForOneNumber: with another program as well, the TPM takes no
// other bits than those that are signed, and no password.
func TestASignatureIsForOneNumber(t *testing.T) {
	key := newKey(t)
	c := newChip(t)
	signed := signEpochs(t, key, 1)
	n := SignedNumber{Open: c.number().Open, Key: &key.PublicKey, Signed: signed}
	if err := n.Raise(1); err != nil {
		t.Fatal(err)
	}

	_, err := (tpm{c.conn}).run(nvSetBits, []uint32{pcrsig.EpochIndex, pcrsig.EpochIndex},
		password, bytesOf(^uint64(0)))
	if err == nil {
		t.Error("a password is enough to raise it")
	}

	// The session has the signed policy, and the command has other bits.
	chip := transport.FromReadWriter(tpm{c.conn})
	session, end, err := tpm2.PolicySession(chip, tpm2.TPMAlgSHA256, nonceSize)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end() }()
	command := pcrsig.EpochCommand(n.Key, 1, true)
	policy := pcrsig.EpochPolicy(n.Key, 1, true)
	_, err = tpm2.PolicyCPHash{
		PolicySession: session.Handle(),
		CPHashA:       tpm2.TPM2BDigest{Buffer: command[:]},
	}.Execute(chip)
	err = errors.Join(err, authorize(chip, session, n.Key, policy, signed.Find(n.Key, policy)),
		requirePCRs(chip, session, lockPCR))
	if err != nil {
		t.Fatal(err)
	}
	_, err = (tpm{c.conn}).run(nvSetBits, []uint32{pcrsig.EpochIndex, pcrsig.EpochIndex},
		uint32(session.Handle()), bytesOf(^uint64(0)))
	if err == nil {
		t.Error("other bits are set")
	}
	if got, err := n.Read(); err != nil || got != 1 {
		t.Errorf("%d, %v", got, err)
	}
}
