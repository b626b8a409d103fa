package loop

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
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

// TestDescribeNamesTheField: an error that was found after a document was read has
// the path of a field, and its own hint and code.
func TestDescribeNamesTheField(t *testing.T) {
	err := fault.With(hint.With(errors.New("it is taken"), "take another"), fault.CannotBeApplied)
	err = document.At("cluster.init.name", fmt.Errorf("init: %w", document.At("name", err)))
	got := Describe(err)
	want := status.Error{
		Path:    "cluster.init.name",
		Code:    fault.CannotBeApplied,
		Problem: "init: it is taken",
		Hint:    "take another",
	}
	if *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestDescribeHintsAtTheRoom for either way in which there is none.
func TestDescribeHintsAtTheRoom(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		got := Describe(fmt.Errorf("write the journal: %w", errno))
		if got.Code != fault.DiskFull || !strings.Contains(got.Hint, "the node goes on by itself") {
			t.Errorf("%+v", got)
		}
	}
}

func TestDescribeHintsAtTheClock(t *testing.T) {
	for _, tt := range []struct {
		reason x509.InvalidReason
		code   fault.Code
		want   string
	}{
		{
			x509.Expired, fault.CertificateExpired,
			"this node's clock may be wrong: `timedatectl`",
		},
		{
			x509.NotAuthorizedToSign, fault.CertificateNotTrusted,
			fault.CertificateNotTrusted.Hint(),
		},
	} {
		err := x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: tt.reason}
		got := Describe(fmt.Errorf("find the image: %w", err))
		if got.Hint != tt.want || got.Code != tt.code {
			t.Errorf("%+v, want code %s and hint %q", got, tt.code, tt.want)
		}
	}
}
