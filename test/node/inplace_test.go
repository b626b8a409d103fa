package node

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster/testcluster"
)

const (
	updateResult = "node.machine.sapcloud.io/update-result"
	updateReason = "node.machine.sapcloud.io/update-failed-reason"
	appliedSum   = "checksum/cloud-config-data"

	spring = "2026-04-01T00:00:00Z"
	summer = "2026-08-01T00:00:00Z"
)

// updatable is a configuration that speaks of updates in place: of credentials
// whose rotation began then, and of processor time that the kubelet keeps.
func (w *clusterTest) updatable(image, rotated, cpu string) string {
	text := w.OSC(30, "", fmt.Sprintf(`  inPlaceUpdates:
    operatingSystemVersion: %s
    kubelet: 1.36.3
    credentialsRotation:
      certificateAuthorities: {lastInitiationTime: %s}
      serviceAccountKey: {lastInitiationTime: %[2]s}
`, image, rotated))
	return strings.Replace(text, "maxPods:", "kubeReserved: {cpu: "+cpu+"}\n          maxPods:", 1)
}

// becomes publishes a configuration and waits until the Node says that it runs
// it.
func (w *clusterTest) becomes(text string) {
	w.Helper()
	w.put(testcluster.Secret, "osc.yaml", text)
	w.await("the Node runs the configuration", testcluster.NodeAPI, runs(text))
}

// runs wants the Node to say that it runs a configuration.
func runs(text string) func(map[string]any) error {
	sum := sha256.Sum256([]byte(text))
	return carries("annotations", appliedSum, hex.EncodeToString(sum[:]))
}

// carries wants a label or an annotation of the Node to be that, "" if none.
func carries(kind, key, value string) func(map[string]any) error {
	return func(node map[string]any) error {
		metadata := node["metadata"].(map[string]any)
		have, _ := metadata[kind].(map[string]any)
		if is, _ := have[key].(string); is != value {
			return fmt.Errorf("%s is %q: %v", key, is, metadata["annotations"])
		}
		return nil
	}
}

// drained sets the Node's condition, as machine-controller-manager does.
func (w *clusterTest) drained() {
	w.Helper()
	w.await("the Node is drained", testcluster.NodeAPI, func(node map[string]any) error {
		status := node["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		status["conditions"] = append(conditions,
			map[string]any{"type": "InPlaceUpdate", "status": "True", "reason": "ReadyForUpdate"})

		body, err := json.Marshal(node)
		if err == nil {
			// The kubelet writes it, too: a conflict.
			_, err = w.Do(http.MethodPut, testcluster.NodeAPI+"/status", string(body))
		}

		return err
	})
}

// allocatable is how much processor time the Node has for pods.
func (w *clusterTest) allocatable() (cpu string) {
	w.Helper()
	w.await("allocatable", testcluster.NodeAPI, func(node map[string]any) error {
		cpu = node["status"].(map[string]any)["allocatable"].(map[string]any)["cpu"].(string)
		return nil
	})
	return cpu
}

// hello runs the pod.
func (w *clusterTest) hello() {
	w.Helper()
	_, err := w.Do(http.MethodPost, podsAPI, `{
		"metadata": {"name": "hello"},
		"spec": {
			"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}},
			"containers": [{"name": "hello", "image": "registry.test/hello:v1"}]
		}
	}`)
	if err != nil {
		w.Fatal(err)
	}
	w.await("the pod runs", podsAPI+"/hello", testcluster.Condition("Ready", "True"))
}

// Commands that write a client certificate as PEM.
const (
	kubeletCertificate = "sed -n '/BEGIN CERT/,/END CERT/p' " +
		"/var/lib/kubelet/pki/kubelet-client-current.pem"
	agentCertificate = "sed -n 's/.*client-certificate-data: //p' " +
		"/var/lib/gardener-node-agent/credentials/kubeconfig | base64 -d"
)

// serial returns the serial number of the certificate that a command prints.
func (n *node) serial(command string) string {
	n.t.Helper()
	block, _ := pem.Decode([]byte(n.sh(command)))
	if block == nil {
		n.t.Fatalf("%s: no certificate", command)
	}

	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		n.t.Fatalf("%s: %v", command, err)
	}

	return certificate.SerialNumber.String()
}

// updatesInPlace is an update of a node that runs a pod: nothing happens before
// it is drained, and afterwards everything that the update names is new.
func updatesInPlace(t *testing.T, n *node, w *clusterTest) {
	image := n.status().ImageVersion
	w.becomes(w.updatable(image, spring, "100m"))
	n.proven()
	n.sh("until test -e /var/lib/loam/inplace.json; do sleep 0.2; done")
	w.await("the pod runs", podsAPI+"/hello", testcluster.Condition("Ready", "True"))
	type facts struct{ Generation, Kubelet, KubeletSerial, AgentSerial, CPU string }
	look := func() facts {
		return facts{
			n.status().Generation,
			n.invocations("kubelet.service")["kubelet.service"],
			n.serial(kubeletCertificate),
			n.serial(agentCertificate),
			w.allocatable(),
		}
	}

	before := look()

	next := w.updatable(image, summer, "300m")
	w.put(testcluster.Secret, "osc.yaml", next)

	n.says(func(s status.Status) bool {
		return s.Cluster != nil &&
			s.Cluster.Waits ==
				"update of what kubelet reserves, certificate authorities, the service account key waits for the Node to be drained"
	})

	w.put(testcluster.Token, testcluster.Token, "third")

	// It has looked since.
	n.sh("until test $(cat " + testcluster.TokenPath + ") = third; do sleep 0.2; done")
	if now := look(); now != before {
		t.Errorf("before the node is drained: %+v, was %+v", now, before)
	}

	begin := time.Now()
	restore := w.without(bindingsAPI +
		"/loam:system:certificates.k8s.io:certificatesigningrequests:selfnodeclient")
	w.drained()
	w.ApproveNodeAgent(t, stepTimeout)
	w.await("the kubelet asks for a certificate", requestsAPI,
		asksAs("system:node:"+testcluster.Node))
	w.await("the agent sees that the kubelet is not let in", leaseAPI,
		renewed(time.Now().Add(20*time.Second)))

	w.await("the Node's labels", testcluster.NodeAPI, func(node map[string]any) error {
		if err := carries("labels", updateResult, "")(node); err != nil {
			t.Errorf("the kubelet has no certificate: %v", err)
		}
		return nil
	})

	restore()
	w.await("the update is done", testcluster.NodeAPI,
		carries("labels", updateResult, "successful"))
	t.Logf("updated after %s", time.Since(begin))
	done := n.sh("date -u +%FT%TZ")
	w.await("no reason of a failure", testcluster.NodeAPI, carries("annotations", updateReason, ""))

	w.await("the pod is deleted", podsAPI, func(pods map[string]any) error {
		if items := pods["items"].([]any); len(items) > 0 {
			return fmt.Errorf("%d pods", len(items))
		}
		return nil
	})

	w.await("the Node says so", testcluster.NodeAPI, runs(next))
	w.await("the Node is Ready", testcluster.NodeAPI, func(node map[string]any) error {
		return errors.Join(testcluster.Condition("Ready", "True")(node), heartbeat(node, done))
	})

	after := look()
	if after.Generation == before.Generation || after.Kubelet == before.Kubelet ||
		after.KubeletSerial == before.KubeletSerial ||
		after.AgentSerial == before.AgentSerial || after.CPU == before.CPU {
		t.Errorf("after the update: %+v, was %+v", after, before)
	}

	w.hello()
	n.proven()
}

// Paths of the API server.
const (
	bindingsAPI = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	requestsAPI = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// without takes an object away until restore.
func (w *clusterTest) without(path string) (restore func()) {
	w.Helper()
	text, err := w.Do(http.MethodGet, path, "")
	if err != nil {
		w.Fatal(err)
	}

	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		w.Fatal(err)
	}

	metadata := object["metadata"].(map[string]any)
	object["metadata"] = map[string]any{"name": metadata["name"]}

	body, err := json.Marshal(object)
	if err != nil {
		w.Fatal(err)
	}

	if _, err := w.Do(http.MethodDelete, path, ""); err != nil {
		w.Fatal(err)
	}

	return func() {
		w.Helper()
		_, err := w.Do(http.MethodPost, path[:strings.LastIndex(path, "/")], string(body))
		if err != nil {
			w.Fatal(err)
		}
	}
}

// asksAs wants a request for a certificate by that user.
func asksAs(user string) func(map[string]any) error {
	return func(requests map[string]any) error {
		for _, r := range requests["items"].([]any) {
			if r.(map[string]any)["spec"].(map[string]any)["username"] == user {
				return nil
			}
		}
		return errors.New("no request of " + user)
	}
}

// heartbeat wants the kubelet to have said how it is since then, by its clock.
func heartbeat(node map[string]any, since string) error {
	for _, c := range node["status"].(map[string]any)["conditions"].([]any) {
		c := c.(map[string]any)
		if c["type"] == "Ready" && c["lastHeartbeatTime"].(string) > since {
			return nil
		}
	}
	return errors.New("nothing was heard since " + since)
}
