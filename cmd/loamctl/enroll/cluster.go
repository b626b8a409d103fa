package enroll

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
)

const secrets = "/api/v1/namespaces/kube-system/secrets"

// Cluster makes a token for each machine: a Secret of the type that the API
// server's authenticator and the controller that removes expired ones know
// (KEP-130, bootstrap tokens).
type Cluster struct {
	Server *kubeconfig.Server

	// For is how long a token is good, Group one more than system:bootstrappers
	// that its bearer is in; "" if none. IsGroup says which ones there are.
	For   time.Duration
	Group string
}

// group is BootstrapGroupPattern of k8s.io/cluster-bootstrap/token/api.
var group = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)

// IsGroup reports whether the bearer of a token may be in a group of that name. With
// another one, an API server does not accept the token at all.
func IsGroup(name string) bool { return group.MatchString(name) }

// Next is a new one.
func (c Cluster) Next(_ func(string) bool, now time.Time) (string, time.Time, error) {
	random := strings.ToLower(rand.Text()) // 26 characters of a to z and 2 to 7
	return random[:6] + "." + random[6:22], now.Add(c.For).UTC().Truncate(time.Second), nil
}

// Good reports whether half of its time is left: a machine that gets the token
// again starts over, and installs itself before it joins.
func (c Cluster) Good(_ string, expires, now time.Time) (bool, error) {
	return now.Add(c.For / 2).Before(expires), nil
}

// Publish makes the Secret. If it exists, an earlier try was interrupted.
func (c Cluster) Publish(ctx context.Context, token string, expires time.Time) error {
	id, secret, _ := strings.Cut(token, ".")
	data := map[string]string{
		"token-id": id, "token-secret": secret, "expiration": expires.Format(time.RFC3339),
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"description": "made by loamctl serve for one machine",
	}

	if c.Group != "" {
		data["auth-extra-groups"] = c.Group
	}

	err := c.Server.Do(ctx, http.MethodPost, secrets, map[string]any{
		"metadata": map[string]string{"name": "bootstrap-token-" + id},
		"type":     "bootstrap.kubernetes.io/token", "stringData": data,
	}, nil)

	var status *kubeconfig.StatusError
	if errors.As(err, &status) && status.Code == http.StatusConflict {
		return nil
	}

	return err
}
