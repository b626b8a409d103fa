package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	mathrand "math/rand/v2"
	"sync"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	clocktesting "k8s.io/utils/clock/testing"
)

// issued is when every certificate of the documents is issued. Gardener's
// authorities are valid for ten years.
var issued = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC)

// seedRandomness makes the secrets that Gardener generates from now on depend
// on name alone: two renderings of one document are the same bytes. The secrets
// protect nothing.
//
// Gardener generates secrets one after the other, so the order of the reads
// from the stream is fixed.
func seedRandomness(name string) {
	stream := &locked{stream: mathrand.NewChaCha8(sha256.Sum256([]byte(name)))}
	rand.Reader = stream

	secretsutils.Clock = clocktesting.NewFakeClock(issued)
	secretsutils.Read = stream.Read
	secretsutils.GenerateRandomString = func(n int) (string, error) {
		text := make([]byte, (n+1)/2)
		_, err := stream.Read(text)
		return hex.EncodeToString(text)[:n], err
	}

	secretsutils.GenerateKey = func(_ io.Reader, bits int) (*rsa.PrivateKey, error) {
		return generateKey(stream, bits)
	}
}

// authority returns the certificate of an authority that has nothing to do with
// the Shoot, the same one for the same name.
func authority(name string) (string, error) {
	seedRandomness("authority " + name)
	config := &secretsutils.CertificateSecretConfig{
		Name:       name,
		CommonName: name,
		CertType:   secretsutils.CACert,
	}

	certificate, err := config.GenerateCertificate()
	if err != nil {
		return "", fmt.Errorf("authority %s: %w", name, err)
	}

	return string(certificate.CertificatePEM), nil
}

// locked is a stream of random bytes for several goroutines.
type locked struct {
	mutex  sync.Mutex
	stream io.Reader
}

func (l *locked) Read(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()

	return l.stream.Read(p)
}

// generateKey makes an RSA key from the stream alone. crypto/rsa reads a random
// number of bytes, so that no program depends on its results.
func generateKey(stream io.Reader, bits int) (*rsa.PrivateKey, error) {
	const exponent = 65537

	p, err := prime(stream, bits/2, exponent)
	if err != nil {
		return nil, err
	}

	q, err := prime(stream, bits/2, exponent)
	if err != nil {
		return nil, err
	}
	if p.Cmp(q) == 0 {
		return nil, errors.New("generate key: the stream repeats")
	}

	one := big.NewInt(1)
	totient := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	key := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: exponent},
		D:         new(big.Int).ModInverse(big.NewInt(exponent), totient),
		Primes:    []*big.Int{p, q},
	}

	key.Precompute()

	return key, key.Validate()
}

// prime returns the first prime of that many bits at or after a number of the
// stream, with which the exponent makes a key.
func prime(stream io.Reader, bits int, exponent uint64) (*big.Int, error) {
	text := make([]byte, bits/8)
	if _, err := io.ReadFull(stream, text); err != nil {
		return nil, err
	}

	// With both highest bits set, a product of two has twice as many bits.
	text[0] |= 0xc0
	text[len(text)-1] |= 1
	first := new(big.Int).SetBytes(text)

	rests := map[uint64]uint64{}
	for p := range smallPrimes() {
		rests[p] = new(big.Int).Mod(first, new(big.Int).SetUint64(p)).Uint64()
	}

	exponentRest := new(big.Int).Mod(first, new(big.Int).SetUint64(exponent)).Uint64()

search:
	for more := uint64(0); ; more += 2 {
		if (exponentRest+more)%exponent == 1 {
			continue
		}
		for p, rest := range rests {
			if (rest+more)%p == 0 {
				continue search
			}
		}
		candidate := new(big.Int).Add(first, new(big.Int).SetUint64(more))
		if candidate.ProbablyPrime(5) {
			return candidate, nil
		}
	}
}

// smallPrimes yields the odd primes below 5,000.
func smallPrimes() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n := int64(3); n < 5000; n += 2 {
			if big.NewInt(n).ProbablyPrime(0) && !yield(uint64(n)) {
				return
			}
		}
	}
}
