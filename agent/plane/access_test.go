package plane_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

func TestKubeconfig(t *testing.T) {
	store := plane.NewStore(durable.New(files.Root(t), nil))
	r, err := store.Init(named(t, "plant-7"), firstTimes)
	if err != nil {
		t.Fatal(err)
	}
	access := plane.Access{
		User:    "ada",
		Group:   "developers",
		For:     8 * time.Hour,
		Address: netip.MustParseAddr("fd00::1"),
	}
	text, err := store.Kubeconfig(r, access, firstTimes.Now)
	if err != nil {
		t.Fatal(err)
	}

	var config struct {
		Clusters []struct{ Cluster struct{ Server string } }
		Users    []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if server := config.Clusters[0].Cluster.Server; server != "https://[fd00::1]:6443" {
		t.Errorf("server %s", server)
	}

	pair, err := tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := store.Keys.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authorities[pki.CA].Certificate)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: firstTimes.Now.Add(7 * time.Hour),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	subject := pair.Leaf.Subject.String()
	if err != nil || subject != "CN=ada,O=developers" ||
		!pair.Leaf.NotAfter.Equal(firstTimes.Now.Add(8*time.Hour)) {
		t.Errorf("%s until %s, %v", subject, pair.Leaf.NotAfter, err)
	}

	// A person has set the clock back to 1970.
	text, err = store.Kubeconfig(r, access, time.Unix(0, 0))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	pair, err = tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil || !pair.Leaf.NotAfter.After(pair.Leaf.NotBefore) {
		t.Errorf("a certificate from %s to %s, %v", pair.Leaf.NotBefore, pair.Leaf.NotAfter, err)
	}

	access.User = ""
	if _, err := store.Kubeconfig(r, access, firstTimes.Now); fault.Of(err) != fault.Usage {
		t.Errorf("access for nobody: %v", err)
	}
	access.User = "ada"
	access.For = 0
	if _, err := store.Kubeconfig(r, access, firstTimes.Now); fault.Of(err) != fault.Usage {
		t.Errorf("access for no time: %v", err)
	}
}
