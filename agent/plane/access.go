package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// maxAccess is the longest time of an [Access]: nothing can take a certificate
// back.
const maxAccess = 365 * 24 * time.Hour

// Access is a client of the API server.
type Access struct {
	// User and Group are who the client is. RBAC says what they may do. Group may be
	// empty.
	User, Group string
	// For is how long the access lasts.
	For time.Duration
	// Address is the address of the API server.
	Address netip.Addr
}

// Kubeconfig returns a kubeconfig with a new client certificate. It is for
// another machine: it has the keys in it, and not their files. The node keeps no
// copy.
func (s Store) Kubeconfig(r Record, a Access, now time.Time) ([]byte, error) {
	if a.For < time.Minute || a.For > maxAccess {
		return nil, hint.With(
			fault.With(fmt.Errorf("access for %s: want 1m to %s", a.For, maxAccess), fault.Usage),
			"write one such as 8h")
	}

	if a.User == "" { // The API server would not take the certificate.
		return nil, hint.With(
			fault.With(errors.New("access for nobody: the user has no name"), fault.Usage),
			"write a name that RBAC has rules for, or leave --user out for admin")
	}

	authorities, err := s.Keys.Authorities()
	if err != nil {
		return nil, err
	}
	ca := authorities[pki.CA]
	leaf := pki.Leaf{Name: "client", User: a.User, Lifetime: a.For, Client: true}
	if a.Group != "" {
		leaf.Groups = []string{a.Group}
	}
	built := ca.Certificate.NotBefore
	if now.Before(built) { // A person has set the clock back.
		now = built
	}
	pair, err := ca.Issue(leaf, pki.Times{Built: built, Now: now})
	if err != nil {
		return nil, err
	}

	text, err := json.MarshalIndent(object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": r.Name,
		"contexts": []object{{
			"name":    r.Name,
			"context": object{"cluster": r.Name, "user": a.User},
		}},
		"clusters": []object{{
			"name": r.Name,
			"cluster": object{
				"server": "https://" +
					net.JoinHostPort(a.Address.String(), strconv.Itoa(apiPort)),
				"tls-server-name":            pki.ServerName,
				"certificate-authority-data": ca.Text(),
			},
		}},
		"users": []object{{
			"name": a.User,
			"user": object{"client-certificate-data": pair, "client-key-data": pair},
		}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig: %w", err)
	}
	return append(text, '\n'), nil
}
