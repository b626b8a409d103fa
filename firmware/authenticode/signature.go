package authenticode

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"

	"github.com/loam-os/loam/firmware/pkcs7"
)

// indirectData is SpcIndirectDataContent.
type indirectData struct {
	Data   any
	Digest struct {
		Algorithm pkix.AlgorithmIdentifier
		Sum       []byte
	}
}

var oidIndirectData = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 4}

// verify checks that an entry of the table is a signature over the digest of an
// image. It returns the certificate of the signer and its chain. The last bytes
// of an entry may be padding.
func verify(entry, digest []byte) ([][]byte, error) {
	sd, rest, err := pkcs7.Parse(entry)
	if err != nil {
		return nil, err
	}
	if len(rest) > 7 || len(bytes.Trim(rest, "\x00")) > 0 {
		return nil, fmt.Errorf("PKCS #7: %d bytes after its end", len(rest))
	}
	if err := over(sd.Content, digest); err != nil {
		return nil, err
	}

	return sd.Verify()
}

// over checks that the signed content is about an image with this digest.
func over(signed pkcs7.ContentInfo, digest []byte) error {
	var about indirectData
	if !signed.Type.Equal(oidIndirectData) {
		return fmt.Errorf("it signs content of type %v, not an image", signed.Type)
	}
	if _, err := asn1.Unmarshal(signed.Content.Bytes, &about); err != nil {
		return fmt.Errorf("SpcIndirectDataContent: %w", err)
	}

	switch d := about.Digest; {
	case !d.Algorithm.Algorithm.Equal(pkcs7.SHA256.Algorithm):
		return fmt.Errorf("digest algorithm %v, want SHA-256", d.Algorithm.Algorithm)
	case !bytes.Equal(d.Sum, digest):
		return fmt.Errorf("it is over an image of digest %x, this one has %x", d.Sum, digest)
	}

	return nil
}
