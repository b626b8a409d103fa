package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

func TestLinkSaysWhyTheClusterIsNotReached(t *testing.T) {
	now := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	l := newLink(zap.NewNop(), status.Cluster{Server: "https://api.example.org:6443"})
	l.network = func() reach.Network { return reach.Network{DNS: []string{"192.0.2.53"}} }
	l.identify("bootstrap token abcdef")

	expired := x509.CertificateInvalidError{
		Cert:   &x509.Certificate{NotAfter: now.Add(-time.Hour)},
		Reason: x509.Expired,
	}
	l.record("secret", fmt.Errorf("get the Secret: %w", expired), now)

	got := l.get()
	want := status.Cluster{
		Server:  "https://api.example.org:6443",
		Problem: "the certificate of api.example.org:6443 has expired at 2040-01-02 02:04 UTC",
		Tried: "api.example.org:6443 with bootstrap token abcdef, from no interface, " +
			"name server 192.0.2.53",
		Hint: "this node's clock says 2040-01-02 03:04 UTC; `timedatectl` shows whether it is set",
		Code: fault.CertificateExpired,
	}
	if got != want {
		t.Errorf("%+v", got)
	}

	l.record("secret", nil, now)
	got = l.get()
	if !got.Connected || got.Problem+got.Tried+got.Hint+string(got.Code) != "" {
		t.Errorf("once it answers: %+v", got)
	}
}

func TestLinkExplainsWithoutANetwork(t *testing.T) {
	l := newLink(zap.NewNop(), status.Cluster{Server: "https://api.example.org:6443"})
	l.record("join", errors.New("parse the key"), time.Time{})
	if got := l.get(); got.Code != fault.Failed || !strings.HasSuffix(got.Tried, "no interface") {
		t.Errorf("%+v", got)
	}
}
