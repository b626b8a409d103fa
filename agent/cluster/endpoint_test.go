package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

func TestNextStepOfTheEndpoint(t *testing.T) {
	const read = "000001-0123456789ab" // The generation of newWorld.

	for _, tt := range []struct {
		name     string
		endpoint endpoint
		edit     func(w *world)
		want     endpointAction
	}{
		{"a generation that was read", endpoint{generation: read}, nil, endpointKeep},
		{"another generation", endpoint{}, nil, endpointReload},
		{
			"another generation, while it is applied",
			endpoint{},
			func(w *world) {
				w.status.Phase = status.Applying
			},
			endpointKeep,
		},
		{
			"a new address that has not answered yet",
			endpoint{generation: read, before: &Config{}, at: noon.Add(-29 * time.Second)},
			nil,
			endpointKeep,
		},
		{
			"a new address that does not answer",
			endpoint{generation: read, before: &Config{}, at: noon.Add(-30 * time.Second)},
			nil,
			endpointRevert,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			if tt.edit != nil {
				tt.edit(&w)
			}
			if got := tt.endpoint.next(w); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// authority returns a new certificate authority as PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestEndpointIsReadFromTheConfiguration(t *testing.T) {
	ca := authority(t)
	for _, tt := range []struct {
		name   string
		config Config
		err    error
		zone   string
		server string
		end    bool
	}{
		{"the same", Config{Server: "https://a", CA: ca}, nil, "", "https://a", false},
		{
			"another label",
			Config{Server: "https://a", CA: ca, Zone: "z"},
			nil,
			"z",
			"https://a",
			false,
		},
		{"another address", Config{Server: "https://b", CA: ca}, nil, "", "https://b", true},
		{
			"an address without an authority",
			Config{Server: "https://b"},
			nil,
			"",
			"https://a",
			false,
		},
		{"an unreadable configuration", Config{}, errors.New("unreadable"), "", "https://a", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.config = Config{Server: "https://a", CA: ca}
			c := endpointController{
				endpoint: &endpoint{},
				reload:   func() (Config, error) { return tt.config, tt.err },
				log:      zap.NewNop(),
			}

			_, err := c.step(t.Context(), &w)
			if err != nil || w.ending != tt.end || (c.endpoint.before != nil) != tt.end {
				t.Errorf("ends %v, %v, %+v", w.ending, err, c.endpoint)
			}
			if w.config.Server != tt.server || w.config.Zone != tt.zone {
				t.Errorf("%+v", w.config)
			}
			if got := c.endpoint.next(w); got != endpointKeep {
				t.Errorf("once more: %s", got)
			}
		})
	}
}

// The previous address may be gone for good, and the new one only slow.
func TestBothAddressesAreTriedInTurn(t *testing.T) {
	old := Config{Server: "https://old"}
	w := newWorld()
	w.config = Config{Server: "https://new"}
	e := endpoint{before: &old, at: noon}

	for i, want := range []string{"https://old", "https://new", "https://old"} {
		e.revert(&w, noon.Add(time.Duration(i)*time.Minute), zap.NewNop())
		if w.config.Server != want || !e.at.Equal(noon.Add(time.Duration(i)*time.Minute)) {
			t.Errorf("%d: %s since %s, want %s", i, w.config.Server, e.at, want)
		}
	}

	e.answered()
	e.revert(&w, noon, zap.NewNop())
	if w.config.Server != "https://old" {
		t.Errorf("an address that answered was reverted to %s", w.config.Server)
	}
}
