package tpm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func (c *chip) sealer() Sealer { return Sealer{Open: c.number().Open} }

// extend extends a PCR.
func (c *chip) extend(pcr uint32) {
	c.Helper()
	digest := sha256.Sum256([]byte("something else was started"))
	c.run(0x182, pcr, bytesOf(uint32(1), uint16(0x0b), digest[:]))
}

func (c *chip) seal(secret string) Sealed {
	c.Helper()
	sealed, err := c.sealer().Seal([]byte(secret), nil)
	if err != nil {
		c.Fatal(err)
	}
	return sealed
}

func (c *chip) unseals(sealed Sealed, want string) {
	c.Helper()
	got, err := c.sealer().Unseal(sealed)
	if err != nil || string(got) != want {
		c.Errorf("%q, %v, want %q", got, err, want)
	}
}

func (c *chip) refuses(sealed Sealed, want error) {
	c.Helper()
	if got, err := c.sealer().Unseal(sealed); !errors.Is(err, want) {
		c.Errorf("%q, %v, want %v", got, err, want)
	}
}

func TestASecretStaysWithItsTPM(t *testing.T) {
	c := newChip(t)
	long := strings.Repeat("s", SecretSize)
	sealed := c.seal(long)
	c.unseals(sealed, long)
	for range 10 { // Nothing is left in the TPM, which has room for three keys.
		c.unseals(c.seal("another"), "another")
	}

	c.stop()
	c.start()
	c.unseals(sealed, long)
	newChip(t).refuses(sealed, ErrOtherTPM)
	c.run(clearTPM, lockout, nil)
	c.refuses(sealed, ErrOtherTPM)
}

func TestASecretStaysWithTheFirmwaresState(t *testing.T) {
	c := newChip(t)
	sealed := c.seal("secret")
	c.extend(8) // by the boot loader, of something else
	c.unseals(sealed, "secret")
	c.extend(statePCR)
	c.refuses(sealed, ErrFirmware)

	// The value beside the secret is for the error only.
	lied := sealed
	lied.PCR = c.seal("another").PCR
	c.refuses(lied, ErrLocked)

	c.stop()
	c.start()
	c.unseals(sealed, "secret")
}

func TestALockedTPMGivesNothingBack(t *testing.T) {
	c := newChip(t)
	sealed := c.seal("secret")
	if err := c.sealer().Lock(); err != nil {
		t.Fatal(err)
	}
	c.refuses(sealed, ErrLocked)
	c.refuses(sealed, ErrLocked)
	c.has(0) // The rest of the TPM works.

	c.stop()
	c.start()
	c.unseals(sealed, "secret")
}

func TestADamagedSecret(t *testing.T) {
	c := newChip(t)
	for name, damage := range map[string]func(s *Sealed){
		"nothing":         func(s *Sealed) { *s = Sealed{} },
		"a short public":  func(s *Sealed) { s.Public = s.Public[:9] },
		"another private": func(s *Sealed) { s.Private[len(s.Private)-1] ^= 1 },
		"another policy":  func(s *Sealed) { s.Public[len(s.Public)-40] ^= 1 },
	} {
		sealed := c.seal("secret")
		damage(&sealed)
		if got, err := c.sealer().Unseal(sealed); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	c.unseals(c.seal("secret"), "secret")
}

// spy records what goes to a TPM and back.
type spy struct {
	chip *chip
	seen bytes.Buffer
}

func (s *spy) Read(p []byte) (int, error) {
	n, err := s.chip.conn.Read(p)
	s.seen.Write(p[:n])
	return n, err
}

func (s *spy) Write(p []byte) (int, error) {
	s.seen.Write(p)
	return s.chip.conn.Write(p)
}

func TestNobodyHearsTheSecretOnTheBus(t *testing.T) {
	s := &spy{chip: newChip(t)}
	sealer := Sealer{Open: func() (io.ReadWriteCloser, error) { return open{s}, nil }}
	sealed, err := sealer.Seal([]byte("the secret"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sealer.Unseal(sealed); err != nil || string(got) != "the secret" {
		t.Fatalf("%q, %v", got, err)
	}
	if s.seen.Len() == 0 || bytes.Contains(s.seen.Bytes(), []byte("the secret")) {
		t.Errorf("seen in %d bytes", s.seen.Len())
	}
}

func TestSealingWithoutATPM(t *testing.T) {
	s := Sealer{
		Open: func() (io.ReadWriteCloser, error) { return os.Open("/dev/nowhere/tpmrm0") },
	}
	if _, err := s.Seal([]byte("secret"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
