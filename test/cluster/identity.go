package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// AgentGroup is a group of the bearers of bootstrap tokens, besides
// system:bootstrappers. The API server takes only groups with this prefix.
const AgentGroup = "system:bootstrappers:loam:node-agent"

// masters may do everything.
const masters = "system:masters"

// writePKI writes the keys and certificates of the control plane and of admin,
// and makes the clients for Do.
func (c *Cluster) writePKI() (err error) {
	c.ca, err = newAuthority("loam test cluster")
	if err != nil {
		return err
	}

	accounts, err := newKey()
	if err != nil {
		return err
	}

	err = errors.Join(c.write(caFile, c.ca.pem), c.writeKey(caKeyFile, c.ca.key),
		c.writeKey(accountFile, accounts))
	if err != nil {
		return err
	}

	api, err1 := c.ca.server("kubernetes")
	toKubelet, err2 := c.ca.client("kube-apiserver", masters)
	admin, err3 := c.ca.client("admin", masters)
	err = errors.Join(err1, err2, err3, c.writePair("api", api),
		c.writePair("to-kubelet", toKubelet), c.writePair("admin", admin))
	if err != nil {
		return err
	}

	cert, err := tls.X509KeyPair([]byte(admin.cert), []byte(admin.key))
	c.admin = c.ca.trusting(cert)
	c.anonymous = c.ca.trusting()

	return err
}

func (h *host) writeKey(name string, key *ecdsa.PrivateKey) error {
	text, err := keyText(key)
	if err != nil {
		return err
	}
	return h.write(name, text)
}

func (h *host) writePair(name string, p pair) error {
	return errors.Join(h.write(name+".crt", p.cert), h.write(name+".key", p.key))
}

func (c *Cluster) writeKubeconfig(file, user string) error {
	text, err := c.kubeconfig(user)
	if err != nil {
		return err
	}
	return c.write(file, text)
}

// trusting is a client for servers of this authority.
func (a authority) trusting(certs ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: certs,
		}},
	}
}

// AdminKubeconfig is the kubeconfig of one who may do everything.
func (e *endpoint) AdminKubeconfig() (string, error) { return e.kubeconfig("admin", masters) }

func (e *endpoint) kubeconfig(user string, groups ...string) (string, error) {
	p, err := e.ca.client(user, groups...)
	if err != nil {
		return "", err
	}

	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: loam
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %q
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: loam
  context: {cluster: loam, user: %[3]q}
current-context: loam
`, e.URL(), encode(e.ca.pem), user, encode(p.cert), encode(p.key)), nil
}

// NewToken makes a bootstrap token for a node that wants to join, good for an
// hour. When it returns, the token may ask for a certificate: the API server
// knows tokens and what they may do by watches of its own, which lag.
func (c *Cluster) NewToken(ctx context.Context) (string, error) {
	random := strings.ToLower(rand.Text())
	id := random[:6]
	secret := random[6:22]
	token := id + "." + secret

	_, err := c.Do(http.MethodPost, "/api/v1/namespaces/kube-system/secrets", fmt.Sprintf(`{
		"metadata": {"name": "bootstrap-token-%s"},
		"type": "bootstrap.kubernetes.io/token",
		"stringData": {
			"token-id": %[1]q, "token-secret": %q, "expiration": %q,
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": %q
		}
	}`, id, secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), AgentGroup))
	if err != nil {
		return "", err
	}

	return token, c.await(ctx, c.api, func() error { return c.mayJoin(token) })
}

func (e *endpoint) mayJoin(token string) error {
	answer, err := e.DoAs(token, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": {"resourceAttributes": {"verb": "create", "group": "certificates.k8s.io", "resource": "certificatesigningrequests"}}
	}`)
	if err != nil {
		return err
	}

	var review struct{ Status struct{ Allowed bool } }
	if err := json.Unmarshal(answer, &review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return errors.New("the token may not ask for a certificate")
	}

	return nil
}

// joining is who may ask for a kubelet's certificate, and whose request
// kube-controller-manager approves: what kubeadm sets up as well.
var joining = []struct{ role, group string }{
	{"system:node-bootstrapper", "system:bootstrappers"},
	{"system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"},
	{"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
}

func (c *Cluster) allowJoining(context.Context) error {
	for _, j := range joining {
		body := fmt.Sprintf(`{
			"apiVersion": "rbac.authorization.k8s.io/v1",
			"kind": "ClusterRoleBinding",
			"metadata": {"name": "loam:%s"},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %[1]q},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": %[2]q}]
		}`, j.role, j.group)
		if err := c.create([]byte(body)); err != nil {
			return err
		}
	}
	return nil
}
