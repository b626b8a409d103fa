package tpm

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"github.com/loam-os/loam/firmware/pcrsig"
)

// SecretSize is the most that a Sealer seals, in bytes (Part 2: Structures,
// MAX_SYM_DATA).
const SecretSize = 128

const (
	// statePCR has the firmware's Secure Boot state: whether it is on, its
	// keys, and the certificates of what it has started (TCG PC Client Platform
	// Firmware Profile, section 3.3.4). An upgrade by the same owner does not
	// change it.
	statePCR = 7

	// lockPCR is zero until [Sealer.Lock], and nothing resets it but a restart.
	// systemd measures the identity of a running system to it, later (UAPI
	// Group, Linux TPM PCR Registry).
	lockPCR = 15
)

// Sealed is a secret that only the TPM which sealed it gives back, and only
// while PCR 7 is what it was then, and before Lock. With a Key, PCR 11 must
// have a value that the key has signed. The fields may be stored anywhere.
type Sealed struct {
	// Public and Private are TPM2B_PUBLIC and TPM2B_PRIVATE.
	Public  []byte `json:"public"`
	Private []byte `json:"private"`

	// PCR is what PCR 7 (SHA-256) was; it says why a TPM refuses.
	PCR []byte `json:"pcr7"`

	// Key is an RSAPublicKey (RFC 8017, appendix A.1.1), nil if the secret is
	// sealed to PCR 7 only.
	Key []byte `json:"pcr11Key,omitempty"`
}

var (
	// ErrOtherTPM means that another TPM sealed the secret, or that this one
	// was cleared since.
	ErrOtherTPM = errors.New("this TPM did not seal it, or was cleared since")

	// ErrFirmware means that PCR 7 has changed.
	ErrFirmware = errors.New("the firmware's Secure Boot state or keys have changed (PCR 7)")

	// ErrUnsigned means that the key has not signed PCR 11 as it is.
	ErrUnsigned = errors.New("this system is not signed by the key that the secret is sealed " +
		"for (PCR 11)")

	// ErrLocked means that the TPM gives nothing back until the machine
	// restarts.
	ErrLocked = errors.New("the TPM is locked until the next start (PCR 15)")
)

// Sealer seals secrets with a TPM 2.0. Its keys are made of the TPM's owner
// seed by the same template each time, so nothing is stored in the TPM. All
// secrets travel encrypted between processor and TPM.
type Sealer struct {
	// Open opens the TPM; see [Number].
	Open func() (io.ReadWriteCloser, error)

	// Signed are the signed policies of the running system.
	Signed pcrsig.Signatures
}

// SealerOfMachine returns the Sealer of the machine's TPM. Without a TPM,
// errors are fs.ErrNotExist.
func SealerOfMachine() Sealer { return Sealer{Open: OfMachine().Open} }

// Seal seals a secret to the present PCR 7 and, if key is not nil, to every
// system that the key has signed. The running one must be such a system.
func (s Sealer) Seal(secret []byte, key *rsa.PublicKey) (sealed Sealed, err error) {
	err = s.with(func(t transport.TPM, parent *tpm2.CreatePrimaryResponse) error {
		sealed, err = s.seal(t, parent, secret, key)
		return err
	})
	if err != nil {
		return Sealed{}, fmt.Errorf("seal with the TPM: %w", err)
	}
	return sealed, nil
}

func (s Sealer) seal(
	t transport.TPM, parent *tpm2.CreatePrimaryResponse, secret []byte, key *rsa.PublicKey,
) (sealed Sealed, err error) {
	state, err := readPCR(t, statePCR)
	if err != nil {
		return Sealed{}, err
	}
	policy, err := s.policyOf(t, key)
	if err != nil {
		return Sealed{}, err
	}
	salt, err := salted(parent)
	if err != nil {
		return Sealed{}, err
	}

	created, err := tpm2.Create{
		ParentHandle: tpm2.AuthHandle{
			Handle: parent.ObjectHandle,
			Name:   parent.Name,
			Auth: tpm2.HMAC(tpm2.TPMAlgSHA256, nonceSize, salt,
				tpm2.AESEncryption(128, tpm2.EncryptIn)),
		},
		InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
			Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: secret}),
		}},
		InPublic: tpm2.New2B(tpm2.TPMTPublic{
			Type:    tpm2.TPMAlgKeyedHash,
			NameAlg: tpm2.TPMAlgSHA256,
			ObjectAttributes: tpm2.TPMAObject{
				FixedTPM:    true,
				FixedParent: true,
				NoDA:        true,
			},
			AuthPolicy: policy,
		}),
	}.Execute(t)
	if err != nil {
		return Sealed{}, err
	}

	sealed = Sealed{
		Public:  tpm2.Marshal(created.OutPublic),
		Private: tpm2.Marshal(created.OutPrivate),
		PCR:     state,
	}
	if key != nil {
		sealed.Key = x509.MarshalPKCS1PublicKey(key)
	}
	return sealed, nil
}

// Lock has the TPM give no secret back until the machine restarts. So neither
// root on the running node nor a state that somebody put in the place of the
// node's own gets at what /init has unsealed.
func (s Sealer) Lock() error {
	f, err := s.Open()
	if err != nil {
		return err
	}
	defer f.Close()

	digest := sha256.Sum256([]byte("loam: lock"))
	_, err = tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: lockPCR, Auth: tpm2.PasswordAuth(nil)},
		Digests: tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{
			HashAlg: tpm2.TPMAlgSHA256,
			Digest:  digest[:],
		}}},
	}.Execute(transport.FromReadWriter(f))
	if err != nil {
		return fmt.Errorf("lock the TPM: %w", err)
	}
	return nil
}

// Check returns ErrUnsigned if the key has not signed PCR 11 as it is: the system
// has no such signature, or the firmware has measured something else.
func (s Sealer) Check(key *rsa.PublicKey) error {
	f, err := s.Open()
	if err != nil {
		return err
	}
	defer f.Close()

	_, _, err = s.find(transport.FromReadWriter(f), key)
	return err
}

// Unseal returns the secret. The error is ErrOtherTPM, ErrFirmware, ErrUnsigned
// or ErrLocked if the TPM is not the one, or not in the state, that it was
// sealed to.
func (s Sealer) Unseal(sealed Sealed) (secret []byte, err error) {
	err = s.with(func(t transport.TPM, parent *tpm2.CreatePrimaryResponse) error {
		secret, err = s.unseal(t, parent, sealed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("unseal with the TPM: %w", err)
	}
	return secret, nil
}

func (s Sealer) unseal(
	t transport.TPM, parent *tpm2.CreatePrimaryResponse, sealed Sealed,
) (secret []byte, err error) {
	object, err := load(t, parent, sealed)
	if err != nil {
		return nil, err
	}
	defer flush(t, object.ObjectHandle)

	now, err := readPCR(t, statePCR)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(now, sealed.PCR) {
		return nil, ErrFirmware
	}

	var key *rsa.PublicKey
	if sealed.Key != nil {
		key, err = x509.ParsePKCS1PublicKey(sealed.Key)
		if err != nil {
			return nil, err
		}
	}

	salt, err := salted(parent)
	if err != nil {
		return nil, err
	}
	session, end, err := tpm2.PolicySession(t, tpm2.TPMAlgSHA256, nonceSize, salt,
		tpm2.AESEncryption(128, tpm2.EncryptOut))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()

	if err := s.require(t, session, key); err != nil {
		return nil, err
	}
	response, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{
		Handle: object.ObjectHandle,
		Name:   object.Name,
		Auth:   session,
	}}.Execute(t)
	if errors.Is(err, tpm2.TPMRCPolicyFail) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}

	return response.OutData.Buffer, nil
}

// load loads the sealed object into the TPM; the caller flushes it.
func load(
	t transport.TPM, parent *tpm2.CreatePrimaryResponse, sealed Sealed,
) (*tpm2.LoadResponse, error) {
	public, err := tpm2.Unmarshal[tpm2.TPM2BPublic](sealed.Public)
	if err != nil {
		return nil, err
	}
	private, err := tpm2.Unmarshal[tpm2.TPM2BPrivate](sealed.Private)
	if err != nil {
		return nil, err
	}

	object, err := tpm2.Load{
		ParentHandle: tpm2.NamedHandle{Handle: parent.ObjectHandle, Name: parent.Name},
		InPrivate:    *private,
		InPublic:     *public,
	}.Execute(t)
	if errors.Is(err, tpm2.TPMRCIntegrity) {
		return nil, ErrOtherTPM
	}
	return object, err
}

// with calls do with the storage key of the TPM.
func (s Sealer) with(
	do func(t transport.TPM, parent *tpm2.CreatePrimaryResponse) error,
) error {
	f, err := s.Open()
	if err != nil {
		return err
	}
	defer f.Close()

	t := transport.FromReadWriter(f)
	parent, err := tpm2.CreatePrimary{
		PrimaryHandle: tpm2.TPMRHOwner,
		InPublic:      tpm2.New2B(tpm2.ECCSRKTemplate),
	}.Execute(t)
	if err != nil {
		return fmt.Errorf("make the storage key: %w", err)
	}
	defer flush(t, parent.ObjectHandle)

	return do(t, parent)
}

// flush frees room in the TPM. Best effort: the kernel does it, too, when the
// device is closed.
func flush(t transport.TPM, h tpm2.TPMHandle) {
	_, _ = tpm2.FlushContext{FlushHandle: h}.Execute(t)
}

// nonceSize is of sessions, in bytes.
const nonceSize = 16

// salted protects a session by the storage key: who listens to the TPM's bus
// cannot decrypt what the session encrypts.
func salted(parent *tpm2.CreatePrimaryResponse) (tpm2.AuthOption, error) {
	public, err := parent.OutPublic.Contents()
	if err != nil {
		return nil, err
	}
	return tpm2.Salted(parent.ObjectHandle, *public), nil
}

// policyOf returns the policy of a secret that is sealed now.
func (s Sealer) policyOf(t transport.TPM, key *rsa.PublicKey) (policy tpm2.TPM2BDigest, err error) {
	session, end, err := tpm2.PolicySession(t, tpm2.TPMAlgSHA256, nonceSize, tpm2.Trial())
	if err != nil {
		return policy, err
	}
	defer func() { err = errors.Join(err, end()) }()

	if err := s.require(t, session, key); err != nil {
		return policy, err
	}
	digest, err := tpm2.PolicyGetDigest{PolicySession: session.Handle()}.Execute(t)
	if err != nil {
		return policy, err
	}
	return digest.PolicyDigest, nil
}

// require makes the present state of the firmware part of the session's policy
// and, if key is not nil, a system that it has signed.
func (s Sealer) require(t transport.TPM, session tpm2.Session, key *rsa.PublicKey) error {
	if key != nil {
		if err := s.requireSigned(t, session, key); err != nil {
			return err
		}
	}
	return requirePCRs(t, session, statePCR, lockPCR)
}

// requireSigned makes PCR 11 part of the session's policy, by any value that the
// key has signed (Part 3, TPM2_PolicyAuthorize).
func (s Sealer) requireSigned(
	t transport.TPM, session tpm2.Session, key *rsa.PublicKey,
) error {
	policy, signature, err := s.find(t, key)
	if err != nil {
		return err
	}
	if err := requirePCRs(t, session, pcrsig.PCR); err != nil {
		return err
	}
	return authorize(t, session, key, policy, signature)
}

// find returns the policy of PCR 11 as it is, and the key's signature of it.
func (s Sealer) find(
	t transport.TPM, key *rsa.PublicKey,
) (policy [sha256.Size]byte, signature []byte, err error) {
	value, err := readPCR(t, pcrsig.PCR)
	if err != nil {
		return policy, nil, err
	}

	policy = pcrsig.Policy([sha256.Size]byte(value))
	signature = s.Signed.Find(key, policy)
	if signature == nil {
		return policy, nil, ErrUnsigned
	}
	return policy, signature, nil
}

// authorize replaces the session's policy, which the key has signed, by a policy
// that wants a signature of the key.
func authorize(
	t transport.TPM, session tpm2.Session, key *rsa.PublicKey, policy [sha256.Size]byte,
	signature []byte,
) error {
	loaded, err := tpm2.LoadExternal{
		InPublic:  tpm2.New2B(publicArea(key)),
		Hierarchy: tpm2.TPMRHOwner,
	}.Execute(t)
	if err != nil {
		return err
	}
	defer flush(t, loaded.ObjectHandle)

	digest := sha256.Sum256(policy[:])
	verified, err := tpm2.VerifySignature{
		KeyHandle: loaded.ObjectHandle,
		Digest:    tpm2.TPM2BDigest{Buffer: digest[:]},
		Signature: tpm2.TPMTSignature{
			SigAlg: tpm2.TPMAlgRSASSA,
			Signature: tpm2.NewTPMUSignature(tpm2.TPMAlgRSASSA, &tpm2.TPMSSignatureRSA{
				Hash: tpm2.TPMAlgSHA256,
				Sig:  tpm2.TPM2BPublicKeyRSA{Buffer: signature},
			}),
		},
	}.Execute(t)
	if err != nil {
		return err
	}

	_, err = tpm2.PolicyAuthorize{
		PolicySession:  session.Handle(),
		ApprovedPolicy: tpm2.TPM2BDigest{Buffer: policy[:]},
		KeySign:        loaded.Name,
		CheckTicket:    verified.Validation,
	}.Execute(t)
	return err
}

// publicArea returns the key as the TPM loads it. The key's name in a policy is
// the digest of all of this.
func publicArea(key *rsa.PublicKey) tpm2.TPMTPublic {
	return tpm2.TPMTPublic{
		Type:    tpm2.TPMAlgRSA,
		NameAlg: tpm2.TPMAlgSHA256,
		ObjectAttributes: tpm2.TPMAObject{
			UserWithAuth: true,
			SignEncrypt:  true,
		},
		Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgRSA, &tpm2.TPMSRSAParms{
			KeyBits: tpm2.TPMKeyBits(key.N.BitLen()),
		}),
		Unique: tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{
			Buffer: key.N.Bytes(),
		}),
	}
}

// requirePCRs makes the present values of PCRs part of the session's policy.
func requirePCRs(t transport.TPM, session tpm2.Session, numbers ...uint) error {
	_, err := tpm2.PolicyPCR{
		PolicySession: session.Handle(),
		Pcrs:          pcrs(numbers...),
	}.Execute(t)
	return err
}

// pcrs selects PCRs of SHA-256.
func pcrs(numbers ...uint) tpm2.TPMLPCRSelection {
	return tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{
		Hash:      tpm2.TPMAlgSHA256,
		PCRSelect: tpm2.PCClientCompatible.PCRs(numbers...),
	}}}
}

// readPCR returns the value of a PCR.
func readPCR(t transport.TPM, number uint) ([]byte, error) {
	response, err := tpm2.PCRRead{PCRSelectionIn: pcrs(number)}.Execute(t)
	if err != nil {
		return nil, err
	}
	if len(response.PCRValues.Digests) != 1 {
		return nil, errors.New("the TPM has no PCRs of SHA-256")
	}
	value := response.PCRValues.Digests[0].Buffer
	if len(value) != sha256.Size {
		return nil, fmt.Errorf("the TPM answers with %d bytes of PCR %d", len(value), number)
	}
	return value, nil
}
