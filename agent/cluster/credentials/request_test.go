package credentials

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/rest"
)

// denying returns an API server that denies each certificate request and sends
// its name to asked.
func denying(t *testing.T) (c *client, asked chan string) {
	t.Helper()
	asked = make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		csr := certificates.CertificateSigningRequest{TypeMeta: meta.TypeMeta{
			APIVersion: "certificates.k8s.io/v1",
			Kind:       "CertificateSigningRequest",
		}}

		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			asked <- path.Base(r.URL.Path)
			csr.Status.Conditions = []certificates.CertificateSigningRequestCondition{
				{
					Type:    certificates.CertificateDenied,
					Status:  core.ConditionTrue,
					Reason:  "Unknown",
					Message: "no such machine",
				},
			}
		}

		_, _ = io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(csr)
	}))
	t.Cleanup(server.Close)

	c, err := newClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)

	return c, asked
}

func TestDeniedRequestIsReplaced(t *testing.T) {
	c, asked := denying(t)
	k, _ := newTestStore(t)
	ask := func() string {
		t.Helper()
		key, err := k.key()
		if err != nil {
			t.Fatal(err)
		}

		_, err = c.request(t.Context(), "machine-1", key)
		if !errors.Is(err, ErrDenied) ||
			!strings.HasSuffix(err.Error(), ": Unknown: no such machine") {
			t.Fatal(err)
		}

		return <-asked
	}

	first := ask()
	if again := ask(); again != first {
		t.Errorf("asked for %s, then %s", first, again)
	}

	if err := k.dropKey(); err != nil {
		t.Fatal(err)
	}
	if another := ask(); another == first {
		t.Error("the denied request was made again")
	}
}

func TestRenewAt(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	c := Credentials{NotBefore: noon, NotAfter: noon.Add(100 * time.Hour)}
	if got := c.RenewAt(0); !got.Equal(noon.Add(80 * time.Hour)) {
		t.Error(got)
	}
	if got := c.RenewAt(1); !got.Equal(noon.Add(88 * time.Hour)) {
		t.Error(got)
	}
}
