package cluster

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

func TestLinkHintsAtTheClock(t *testing.T) {
	now := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)

	for _, tt := range []struct {
		name   string
		reason x509.InvalidReason
		want   bool
	}{
		{"a certificate that has expired", x509.Expired, true},
		{"a certificate for something else", x509.IncompatibleUsage, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLink(zap.NewNop(), status.Cluster{})
			invalid := x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: tt.reason}
			l.record("secret", fmt.Errorf("get the Secret: %w", invalid), now)
			const want = "; hint: this node's clock says 2040-01-02 03:04 UTC; " +
				"`timedatectl` shows whether it is set"
			if got := l.get().Problem; strings.HasSuffix(got, want) != tt.want {
				t.Errorf("problem %q", got)
			}
		})
	}
}
