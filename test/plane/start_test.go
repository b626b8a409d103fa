package plane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// TestFromAnEmptyDiskToFiveYearsLaterAndBack starts a control plane on an empty
// disk, has it schedule pods, cuts the power, starts it with a clock that is five
// years ahead, and then with a clock that is right again.
func TestFromAnEmptyDiskToFiveYearsLaterAndBack(t *testing.T) {
	t.Parallel()
	needClock(t)
	m := newCluster(t)
	m.boot(t)
	m.checkEtcd(t)
	m.startControllers(t)

	m.addNode(t)
	m.createDeployment(t)
	m.awaitPods(t, 2)
	m.checkSecrets(t)
	m.checkAudit(t)
	m.stop(t)

	m.ahead = 5 * 365 * 24 * time.Hour
	renewed := m.boot(t)
	m.startControllers(t)
	if len(renewed) != len(pki.Leaves(m.record.Names(nodeName))) {
		t.Errorf("after five years only these were renewed: %v", renewed)
	}

	date, err := http.ParseTime(m.must(t, http.MethodGet, "/version", "").date)
	if err != nil || date.Sub(m.now()).Abs() > time.Hour {
		t.Errorf("the clock of the API server says %s, %v", date, err)
	}

	m.must(t, http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/web",
		`{"spec":{"replicas":3}}`)
	m.awaitPods(t, 3)
	m.checkSecret(t)
	m.stop(t)

	m.ahead = 0
	if renewed := m.boot(t); renewed != nil {
		t.Errorf("with the right clock these were renewed: %v", renewed)
	}
	m.checkSecret(t)
}

// TestEtcdGathersChangesOnceItIsProven starts etcd on trial, proven, and as another one, on
// trial again.
func TestEtcdGathersChangesOnceItIsProven(t *testing.T) {
	t.Parallel()
	m := newCluster(t)
	m.renew(t)
	start := func(want bool) {
		t.Helper()
		m.start(t, plane.Render(m.record, m.node), "etcd.service")
		defer m.kill("etcd.service")
		pid := m.running["etcd.service"].cmd.Process.Pid
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(environment), "ETCD_BACKEND_BATCH_INTERVAL=10s"); got != want {
			t.Errorf("etcd of Kubernetes %s gathers changes: %v", m.record.Kubernetes, got)
		}
	}

	start(false)
	start(false)
	m.prove(t)
	start(true)
	m.record.Kubernetes = "1.38.0"
	start(false)
}

// TestRenewedCertificatesNeedNoRestart renews all certificates under a running
// control plane: the API server serves its new one, and goes on.
func TestRenewedCertificatesNeedNoRestart(t *testing.T) {
	t.Parallel()
	m := newCluster(t)
	m.boot(t)
	before := m.must(t, http.MethodGet, "/version", "").serial

	times := pki.Times{Built: built, Now: time.Now().AddDate(1, 0, 0)}
	leaves := pki.Leaves(m.record.Names(nodeName))
	renewed, err := m.store.Renew(leaves, m.record.Encrypted(), times)
	if err != nil || len(renewed) != len(leaves) {
		t.Fatalf("renewed %v, %v", renewed, err)
	}

	m.await(t, "the new certificate", func(ctx context.Context) error {
		m.admin.CloseIdleConnections()
		a, err := m.do(ctx, http.MethodGet, "/readyz", "")
		if err == nil && a.serial == before {
			err = errors.New("the API server serves the old one")
		}
		return err
	})
	m.must(t, http.MethodPost, "/api/v1/namespaces/default/configmaps",
		`{"metadata":{"name":"after"}}`)
}

// checkEtcd: etcd tells its health and metrics on loopback, without a certificate.
// All else is for clients with a certificate and TLS 1.3.
func (m *machine) checkEtcd(t testing.TB) {
	t.Helper()
	get := func(url string, config *tls.Config) (string, error) {
		transport := &http.Transport{
			DialContext:       m.net.dial,
			TLSClientConfig:   config,
			DisableKeepAlives: true,
		}
		resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(url)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.Status + " " + string(text), err
	}

	for url, want := range map[string]string{
		plane.EtcdHealthURL:             `200 OK {"health":"true"`,
		"http://127.0.0.1:2381/metrics": "200 OK # HELP etcd_",
		"http://127.0.0.1:2381/version": "404 Not Found",
	} {
		if text, err := get(url, nil); err != nil || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %.80q, %v, want %q", url, text, err, want)
		}
	}

	// The names and the authority of the server are not the question here.
	const clients = "https://127.0.0.1:2379/health"
	text, err := get(clients, &tls.Config{InsecureSkipVerify: true})
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("%s without a certificate: %.80q, %v", clients, text, err)
	}
	text, err = get(clients, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
		t.Errorf("%s with TLS 1.2: %.80q, %v", clients, text, err)
	}
}

// addNode adds a node that nothing runs on.
func (m *machine) addNode(t testing.TB) {
	t.Helper()
	m.must(t, http.MethodPost, "/api/v1/nodes",
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"fake"}}`)
	m.must(t, http.MethodPatch, "/api/v1/nodes/fake/status", `{"status":{
		"conditions":[{"type":"Ready","status":"True","reason":"Test","message":""}],
		"capacity":{"cpu":"4","memory":"4Gi","pods":"110"},
		"allocatable":{"cpu":"4","memory":"4Gi","pods":"110"}}}`)
}

func (m *machine) createDeployment(t testing.TB) {
	t.Helper()
	m.must(t, http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", `{
		"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
		"spec":{
			"replicas":2,
			"selector":{"matchLabels":{"app":"web"}},
			"template":{
				"metadata":{"labels":{"app":"web"}},
				"spec":{
					"tolerations":[{"operator":"Exists"}],
					"containers":[{"name":"web","image":"registry.example/web:1"}]}}}}`)
}

// awaitPods waits until that many pods of the Deployment are scheduled.
func (m *machine) awaitPods(t testing.TB, n int) {
	t.Helper()
	m.await(t, fmt.Sprintf("%d pods", n), func(ctx context.Context) error {
		a, err := m.do(ctx, http.MethodGet, "/api/v1/namespaces/default/pods", "")
		if err != nil {
			return err
		}
		var list struct {
			Items []struct{ Spec struct{ NodeName string } }
		}
		if err := json.Unmarshal(a.body, &list); err != nil {
			return err
		}

		scheduled := 0
		for _, pod := range list.Items {
			if pod.Spec.NodeName == "fake" {
				scheduled++
			}
		}
		if scheduled != n {
			return fmt.Errorf("%d of %d pods are scheduled: %s", scheduled, len(list.Items), a.body)
		}
		return nil
	})
}

const secret = "not to be found on the disk"

// checkSecrets: a Secret is not on the disk in clear, and no key is in what the
// programs publish.
func (m *machine) checkSecrets(t testing.TB) {
	t.Helper()
	for _, kind := range []string{"secrets", "configmaps"} {
		field := map[string]string{"secrets": "stringData", "configmaps": "data"}[kind]
		value := map[string]string{"secrets": secret, "configmaps": "found on the disk in clear"}[kind]
		m.must(t, http.MethodPost, "/api/v1/namespaces/default/"+kind,
			fmt.Sprintf(`{"metadata":{"name":"test"},%q:{"text":%q}}`, field, value))
	}
	m.checkSecret(t)
	if !m.onDisk(t, "found on the disk in clear") {
		t.Error("the ConfigMap is not on the disk either")
	}

	for _, name := range []string{
		"default/configmaps/kube-root-ca.crt",
		"kube-system/configmaps/extension-apiserver-authentication",
	} {
		m.await(t, name, func(ctx context.Context) error {
			a, err := m.do(ctx, http.MethodGet, "/api/v1/namespaces/"+name, "")
			text := string(a.body)
			if err == nil && !strings.Contains(text, "BEGIN CERTIFICATE") {
				return errors.New("it has no certificate")
			}
			if strings.Contains(text, "PRIVATE KEY") {
				t.Errorf("%s has a private key: %s", name, text)
			}
			return err
		})
	}
}

// checkAudit: the audit log has the body of a request, but none of a Secret.
func (m *machine) checkAudit(t testing.TB) {
	t.Helper()
	m.await(t, "the audit log", func(context.Context) error {
		text, err := os.ReadFile(m.dir + "/log/audit.log")
		if err == nil && !strings.Contains(string(text), "registry.example/web:1") {
			err = errors.New("it has no Deployment")
		}
		if strings.Contains(string(text), secret) {
			t.Error("the audit log has the Secret")
		}
		return err
	})
}

func (m *machine) checkSecret(t testing.TB) {
	t.Helper()
	a := m.must(t, http.MethodGet, "/api/v1/namespaces/default/secrets/test", "")
	var got struct{ Data map[string][]byte }
	if err := json.Unmarshal(a.body, &got); err != nil || string(got.Data["text"]) != secret {
		t.Errorf("the Secret reads %s, %v", a.body, err)
	}
	if m.onDisk(t, secret) || !m.onDisk(t, "k8s:enc:secretbox:v1:key1:") {
		t.Error("the Secret is on the disk in clear")
	}
}
