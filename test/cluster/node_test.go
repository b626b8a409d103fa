package cluster

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestANodeJoinsAndItsLogsAreRead goes through all that a guest's kubelet
// needs, with a kubelet that knows one log only.
func TestANodeJoinsAndItsLogsAreRead(t *testing.T) {
	c := Start(t, Options{Controllers: true, Scheduler: true})
	t.Run("a bootstrap token gets a kubelet's certificate", func(t *testing.T) {
		askForCertificate(t, c, c.BootstrapToken(t))
		c.mustAwait(t, func() error {
			var request struct{ Status struct{ Certificate []byte } }
			get(t, c, "/apis/certificates.k8s.io/v1/certificatesigningrequests/guest", &request)
			if len(request.Status.Certificate) == 0 {
				return errors.New("no certificate")
			}
			return nil
		})
	})

	t.Run("a pod is scheduled and the API server reads its log in the guest", func(t *testing.T) {
		c.Route("10.0.2.15:10250", fakeKubelet(t))
		addNode(t, c)
		c.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods",
			`{"metadata": {"name": "hello"}, "spec": {"containers": [{"name": "hello", "image": "none"}]}}`)

		c.mustAwait(t, func() error {
			var pod struct{ Spec struct{ NodeName string } }
			get(t, c, "/api/v1/namespaces/default/pods/hello", &pod)
			if pod.Spec.NodeName != "guest" {
				return fmt.Errorf("pod is on node %q", pod.Spec.NodeName)
			}
			return nil
		})

		log, err := c.Do(http.MethodGet, "/api/v1/namespaces/default/pods/hello/log", "")
		if err != nil || string(log) != "log of /containerLogs/default/hello/hello\n" {
			t.Errorf("log %q, %v", log, err)
		}
	})
}

func askForCertificate(t *testing.T, c *Cluster, token string) {
	t.Helper()
	template := x509.CertificateRequest{Subject: pkix.Name{
		CommonName:   "system:node:guest",
		Organization: []string{"system:nodes"},
	}}

	der, err := x509.CreateCertificateRequest(rand.Reader, &template, must(newKey())(t))
	if err != nil {
		t.Fatal(err)
	}

	text := base64.StdEncoding.EncodeToString([]byte(block("CERTIFICATE REQUEST", der)))
	_, err = c.DoAs(token, http.MethodPost, "/apis/certificates.k8s.io/v1/certificatesigningrequests", fmt.Sprintf(`{
		"metadata": {"name": "guest"},
		"spec": {
			"request": %q,
			"signerName": "kubernetes.io/kube-apiserver-client-kubelet",
			"usages": ["digital signature", "client auth"]
		}
	}`, text))
	if err != nil {
		t.Fatal(err)
	}
}

// fakeKubelet answers a request for a log with its path, and returns its
// address.
func fakeKubelet(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "no client certificate", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "log of "+r.URL.Path+"\n")
	}))

	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)

	return s.Listener.Addr().String()
}

// addNode makes a node that is ready and has the address of a QEMU guest.
func addNode(t *testing.T, c *Cluster) {
	t.Helper()
	c.mustDo(t, http.MethodPost, "/api/v1/nodes", `{"metadata": {"name": "guest"}}`)

	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"addresses":       []any{map[string]any{"type": "InternalIP", "address": "10.0.2.15"}},
		"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": 10250}},
		"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady"},
		},
		"capacity":    map[string]any{"pods": "10", "cpu": "1", "memory": "1Gi"},
		"allocatable": map[string]any{"pods": "10", "cpu": "1", "memory": "1Gi"},
	}})
	if err != nil {
		t.Fatal(err)
	}

	c.mustDo(t, http.MethodPatch, "/api/v1/nodes/guest/status", string(status))
	c.mustDo(t, http.MethodPatch, "/api/v1/nodes/guest", `{"spec": {"taints": null}}`)
}
