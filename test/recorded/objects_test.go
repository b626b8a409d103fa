package recorded

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

const (
	secretName = "gardener-node-agent-pool"
	secrets    = "/api/v1/namespaces/kube-system/secrets"
	leases     = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
	nodeLease  = leases + "gardener-node-agent-node-1"
	nodes      = "/api/v1/nodes"
	signings   = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// object is what the tests look at of any object of the API.
type object struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
		DeletionTimestamp   string
	}
	Spec struct {
		HolderIdentity string
		RenewTime      time.Time
	}
	Status struct {
		Conditions []condition
		Addresses  []struct{ Type, Address string }
	}
	// Items are the objects of a list.
	Items []object
}

type condition struct{ Type, Status, Reason string }

// get asks for an object, or for a list of them.
func (w *fixture) get(path string) (object, error) {
	var o object
	text, err := w.Do("GET", path, "")
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// must does a request that has to succeed.
func (w *fixture) must(method, path, body string) map[string]any {
	w.Helper()
	text, err := w.Do(method, path, body)
	if err != nil {
		w.Fatal(err)
	}

	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		w.Fatal(err)
	}

	return object
}

// put makes the Secret what data says.
func (w *fixture) put(name string, data map[string]string) {
	w.Helper()
	encoded := map[string]string{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}

	meta := map[string]any{"name": name}
	if w.serial {
		meta["annotations"] = map[string]any{inTurn: "true"}
	}
	if w.policy != "" {
		meta["annotations"] = map[string]any{"rollout.loam.dev/policy": w.policy}
	}

	body, err := json.Marshal(map[string]any{"metadata": meta, "data": encoded})
	if err != nil {
		w.Fatal(err)
	}

	var missing *cluster.StatusError
	if _, err := w.Do("PUT", secrets+"/"+name, string(body)); errors.As(err, &missing) &&
		missing.Code == http.StatusNotFound {
		w.must("POST", secrets, string(body))
	} else if err != nil {
		w.Fatal(err)
	}
}

// says makes text the configuration that the cluster has for the node.
func (w *fixture) says(text string) {
	w.Helper()
	w.put(secretName, map[string]string{"osc.yaml": text})
}

// becomes sends the node a document and waits until it is applied.
func (w *fixture) becomes(text string) { w.Helper(); w.says(text); w.annotated(text) }

// poke makes the node's session run what is due: a token has changed, and has
// reached its file when poke returns.
func (w *fixture) poke() {
	w.Helper()
	w.count++
	text := fmt.Sprint("token ", w.count)
	w.put(w.token, map[string]string{"token": text})
	w.file(tokenFile, text)
}

// overtake has the node apply what came after all before: another text of the
// Secret that referring belongs to. What has not been applied by then, waits.
func (w *fixture) overtake() {
	w.Helper()
	w.count++
	text := fmt.Sprint("bundle ", w.count)
	w.put("ca", map[string]string{"bundle.crt": text})
	w.file("etc/ca", text)
}
