package cluster

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// AgentGroup is a group of the bearers of bootstrap tokens, besides
// system:bootstrappers. The API server takes only groups with this prefix.
const AgentGroup = "system:bootstrappers:loam:node-agent"

// masters may do everything.
const masters = "system:masters"

// writePKI writes the keys and certificates of the control plane, and makes
// the clients for Do.
func (c *Cluster) writePKI(t testing.TB) {
	t.Helper()
	c.ca = newAuthority(t, "loam test cluster")
	c.write(t, caFile, c.ca.pem)
	c.write(t, caKeyFile, keyText(t, c.ca.key))
	c.write(t, accountFile, keyText(t, newKey(t)))
	c.writePair(t, "api", c.ca.server(t, "kubernetes"))
	c.writePair(t, "to-kubelet", c.ca.client(t, "kube-apiserver", masters))
	admin := c.ca.client(t, "admin", masters)
	cert, err := tls.X509KeyPair([]byte(admin.cert), []byte(admin.key))
	if err != nil {
		t.Fatal(err)
	}
	c.admin, c.anonymous = c.ca.trusting(t, cert), c.ca.trusting(t)
}

func (h *host) writePair(t testing.TB, name string, p pair) {
	t.Helper()
	h.write(t, name+".crt", p.cert)
	h.write(t, name+".key", p.key)
}

// trusting is a client for servers of this authority.
func (a authority) trusting(t testing.TB, certs ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	client := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}},
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// Admin is the kubeconfig of one who may do everything.
func (c *Cluster) Admin(t testing.TB) string { return c.Kubeconfig(t, "admin", masters) }

// Kubeconfig is the text of a file that makes its reader that user, by a
// client certificate. Its server is URL; for a guest, replace it by GuestURL.
func (c *Cluster) Kubeconfig(t testing.TB, user string, groups ...string) string {
	t.Helper()
	p := c.ca.client(t, user, groups...)
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
`, c.URL(), encode(c.ca.pem), user, encode(p.cert), encode(p.key))
}

// BootstrapToken makes a new token for a node that wants to join, good for an hour.
func (c *Cluster) BootstrapToken(t testing.TB) string {
	t.Helper()
	random := strings.ToLower(rand.Text())
	id, secret := random[:6], random[6:22]
	c.mustDo(t, http.MethodPost, "/api/v1/namespaces/kube-system/secrets", fmt.Sprintf(`{
		"metadata": {"name": "bootstrap-token-%s"},
		"type": "bootstrap.kubernetes.io/token",
		"stringData": {
			"token-id": %[1]q, "token-secret": %q, "expiration": %q,
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": %q
		}
	}`, id, secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), AgentGroup))
	return id + "." + secret
}

// joining is who may ask for a kubelet's certificate, and whose request
// kube-controller-manager approves: what kubeadm sets up as well.
var joining = []struct{ role, group string }{
	{"system:node-bootstrapper", "system:bootstrappers"},
	{"system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"},
	{"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
}

func (c *Cluster) allowJoining(t testing.TB) {
	t.Helper()
	for _, j := range joining {
		c.mustDo(t, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", fmt.Sprintf(`{
			"metadata": {"name": "loam:%s"},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %[1]q},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": %[2]q}]
		}`, j.role, j.group))
	}
}
