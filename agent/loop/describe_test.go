package loop

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"
)

// TestDescribeLeavesOutTheLocalPort: a problem that stays would be another at
// each try.
func TestDescribeLeavesOutTheLocalPort(t *testing.T) {
	for _, tt := range []struct{ from, want string }{
		{"10.0.0.4", "find the image: read tcp 10.0.0.9:443: reset"},
		{"fd00::4", "find the image: read tcp 10.0.0.9:443: reset"},
	} {
		err := &net.OpError{
			Op:     "read",
			Net:    "tcp",
			Source: &net.TCPAddr{IP: net.ParseIP(tt.from), Port: 51234},
			Addr:   &net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 443},
			Err:    errors.New("reset"),
		}
		if got := Describe(fmt.Errorf("find the image: %w", err)).Problem; got != tt.want {
			t.Errorf("%q", got)
		}
	}
}

func TestDescribeHintsAtTheClock(t *testing.T) {
	for _, tt := range []struct {
		reason x509.InvalidReason
		want   string
	}{
		{x509.Expired, "this node's clock may be wrong: `timedatectl`"},
		{x509.NotAuthorizedToSign, ""},
	} {
		err := x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: tt.reason}
		got := Describe(fmt.Errorf("find the image: %w", err)).Hint
		if got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
