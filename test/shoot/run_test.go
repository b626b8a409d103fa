package shoot

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/test/cluster"
)

// nodeAgent is a client of the API server with the certificate of a machine's
// agent.
type nodeAgent struct {
	t       testing.TB
	cluster *cluster.Cluster
	client  *http.Client
}

func newAgent(t testing.TB, c *cluster.Cluster, machine string) nodeAgent {
	t.Helper()

	var config struct {
		Users []struct {
			User struct {
				Certificate string `json:"client-certificate-data"`
				Key         string `json:"client-key-data"`
			}
		}
	}

	text := c.Kubeconfig(t, AgentPrefix+machine, AgentGroup)
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}

	decode := func(text string) []byte {
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}

	user := config.Users[0].User
	pair, err := tls.X509KeyPair(decode(user.Certificate), decode(user.Key))
	if err != nil {
		t.Fatal(err)
	}

	transport := &http.Transport{TLSClientConfig: &tls.Config{
		Certificates:       []tls.Certificate{pair},
		InsecureSkipVerify: true, // Who the server is does not matter here.
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return nodeAgent{t: t, cluster: c, client: &http.Client{Transport: transport}}
}

// ask returns the status of the answer and its message.
func (a nodeAgent) ask(method, path, body string) (int, string) {
	a.t.Helper()

	request, err := http.NewRequest(method, a.cluster.URL()+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}

	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}

	answer, err := a.client.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer answer.Body.Close()

	text, err := io.ReadAll(answer.Body)
	if err != nil {
		a.t.Fatal(err)
	}

	var status struct{ Message string }
	if err := json.Unmarshal(text, &status); err != nil {
		status.Message = string(text)
	}

	return answer.StatusCode, status.Message
}

// objects creates what others of a cluster create.
type objects struct {
	t       testing.TB
	cluster *cluster.Cluster
}

func (o objects) create(path, format string, args ...any) {
	o.t.Helper()
	if _, err := o.cluster.Do(http.MethodPost, path, fmt.Sprintf(format, args...)); err != nil {
		o.t.Fatal(err)
	}
}

func (o objects) secret(name, labels string) {
	o.t.Helper()
	o.create("/api/v1/namespaces/kube-system/secrets",
		`{"metadata": {"name": %q, "labels": %s}}`, name, labels)
}

// machine creates a Machine whose Node is called node, or has none yet.
func (o objects) machine(name, node, secret string) {
	o.t.Helper()
	o.create(machines, `{
		"apiVersion": "machine.sapcloud.io/v1alpha1",
		"kind": "Machine",
		"metadata": {"name": %q, "labels": {"node": %q}},
		"spec": {
			"class": {"kind": "MachineClass", "name": "small"},
			"nodeTemplate": {"metadata": {"labels": {%q: %q}}}
		}
	}`, name, node, SecretNameLabel, secret)
}

func (o objects) node(name, secret string) {
	o.t.Helper()
	o.create("/api/v1/nodes",
		`{"metadata": {"name": %q, "labels": {%q: %q, "kubernetes.io/hostname": %[1]q}}}`, name,
		SecretNameLabel, secret)
}

const (
	namespace = "shoot--loam--edge"
	machines  = "/apis/machine.sapcloud.io/v1alpha1/namespaces/" + namespace + "/machines"
	system    = "/api/v1/namespaces/kube-system"
	leases    = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	events    = "/api/v1/namespaces/default/events"
	requests  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// rule is a request of a node agent, and what Gardener says to it.
type rule struct {
	name   string
	method string
	path   string
	body   string
	want   int
	reason string // part of the message
}

// judge asks all requests. The authorizer sees objects by watches, which lag:
// the first request is asked again until the answer is as it has to be.
func (a nodeAgent) judge(t *testing.T, rules []rule) {
	t.Helper()

	until(t, func() bool {
		code, _ := a.ask(rules[0].method, rules[0].path, rules[0].body)
		return code == rules[0].want
	})

	for _, r := range rules {
		if r.method == "" {
			r.method = http.MethodGet
		}
		code, message := a.ask(r.method, r.path, r.body)
		if code != r.want || !strings.Contains(message, r.reason) {
			t.Errorf("%s: %s %s: %d %s; want %d %s",
				r.name, r.method, r.path, code, message, r.want, r.reason)
		}
	}
}

// until waits for a condition that must become true, on a host that may be
// busy.
func until(t testing.TB, done func() bool) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not happen within a minute")
		}
	}
}

const (
	ownLease = `{"metadata": {"name": "gardener-node-agent-node-1"}, "spec": {"holderIdentity": "node-1"}}`
	event    = `{
		"metadata": {"generateName": "e-"},
		"involvedObject": {"kind": "Node", "name": "node-1"},
		"reason": "Test",
		"type": "Normal"
	}`
)

// always is what a node agent may do, or not, whether or not there is its Node.
var always = []rule{
	{name: "a token", path: system + "/secrets/gardener-opentelemetry-collector", want: 200},
	{
		name:   "another Secret",
		path:   system + "/secrets/other",
		want:   403,
		reason: "can only access secrets",
	},
	{
		name:   "all Secrets",
		path:   system + "/secrets",
		want:   403,
		reason: "can only access secrets",
	},
	{
		name:   "deleting its document",
		method: http.MethodDelete,
		path:   system + "/secrets/osc-own",
		want:   403,
		reason: "only the following verbs are allowed",
	},
	{name: "all Nodes", path: "/api/v1/nodes", want: 200},
	{
		name:   "an Event",
		method: http.MethodPost,
		path:   events,
		body:   event,
		want:   201,
	},
	{
		name:   "reading Events",
		path:   events,
		want:   403,
		reason: "only the following verbs are allowed",
	},
	{name: "a ConfigMap", path: system + "/configmaps", want: 403},
	{name: "anything that is no resource", path: "/metrics", want: 403},
}

// beforeNode is what a node agent may do while there is no Node.
var beforeNode = []rule{
	{name: "its document", path: system + "/secrets/osc-own", want: 200},
	{
		name:   "its Lease",
		path:   leases + "/gardener-node-agent-node-1",
		want:   403,
		reason: "no node for",
	},
	{
		name:   "making its Lease",
		method: http.MethodPost,
		path:   leases,
		body:   ownLease,
		want:   403,
		reason: "no node for",
	},
	{
		name:   "its Node",
		path:   "/api/v1/nodes/node-1",
		want:   403,
		reason: "no node for",
	},
	{
		name:   "its pods",
		path:   "/api/v1/pods?fieldSelector=spec.nodeName=node-1",
		want:   403,
		reason: "no node for",
	},
}

// withNode is what a node agent may do as soon as there is its Node.
var withNode = []rule{
	{name: "its Node", path: "/api/v1/nodes/node-1", want: 200},
	{
		name:   "changing its Node",
		method: http.MethodPatch,
		path:   "/api/v1/nodes/node-1",
		body:   `{"metadata": {"annotations": {"checksum/cloud-config-data": "1"}}}`,
		want:   200,
	},
	{
		name:   "changing its Node's status",
		method: http.MethodPatch,
		path:   "/api/v1/nodes/node-1/status",
		body:   `{"status": {"phase": ""}}`,
		want:   200,
	},
	{
		name:   "another Node",
		path:   "/api/v1/nodes/node-2",
		want:   403,
		reason: "can only access node",
	},
	{name: "its document", path: system + "/secrets/osc-own", want: 200},
	{
		name:   "another document",
		path:   system + "/secrets/osc-other",
		want:   403,
		reason: "can only access secrets",
	},
	{name: "its Lease, not made yet", path: leases + "/gardener-node-agent-node-1", want: 404},
	{
		name:   "making its Lease",
		method: http.MethodPost,
		path:   leases,
		body:   ownLease,
		want:   201,
	},
	{name: "the Lease of its pool's roll-out", path: leases + "/osc-own", want: 404},
	{
		name:   "another Lease",
		path:   leases + "/gardener-node-agent-node-2",
		want:   403,
		reason: "can only access leases",
	},
	{
		name:   "deleting its Lease",
		method: http.MethodDelete,
		path:   leases + "/gardener-node-agent-node-1",
		want:   403,
		reason: "only the following verbs are allowed",
	},
	{name: "its pods", path: "/api/v1/pods?fieldSelector=spec.nodeName=node-1", want: 200},
	{
		name:   "all pods",
		path:   "/api/v1/pods",
		want:   403,
		reason: "can only list/watch pods",
	},
}

func TestNodeAgentOfAManagedMachine(t *testing.T) {
	c := Run(t, Options{MachineNamespace: namespace})
	o := objects{t, c}
	o.secret("osc-own", `{"`+PoolLabel+`": "own"}`)
	o.secret("osc-other", `{"`+PoolLabel+`": "other"}`)
	o.secret("gardener-opentelemetry-collector", `{}`)
	o.secret("other", `{}`)
	o.machine("machine-1", "", "osc-own")
	a := newAgent(t, c, "machine-1")

	a.judge(t, slices.Concat(beforeNode, always, []rule{
		{
			name:   "another document",
			path:   system + "/secrets/osc-other",
			want:   403,
			reason: "can only access secrets",
		},
	}))

	// The machine controller names the Node on the Machine once the Node is
	// there.
	o.node("node-2", "osc-other")
	o.node("node-1", "osc-own")

	_, err := c.Do(http.MethodPatch, machines+"/machine-1",
		`{"metadata": {"labels": {"node": "node-1"}}}`)
	if err != nil {
		t.Fatal(err)
	}

	a.judge(t, slices.Concat(withNode, always))

	// The agent of a machine that Gardener does not know has no rights at all.
	stranger := newAgent(t, c, "machine-2")
	code, _ := stranger.ask(http.MethodGet, system+"/secrets/osc-own", "")
	if code != http.StatusForbidden {
		t.Errorf("the document of another machine's agent: %d", code)
	}
}

func TestNodeAgentOfASelfHostedShoot(t *testing.T) {
	c := Run(t, Options{})
	o := objects{t, c}
	o.secret("osc-own", `{"`+PoolLabel+`": "own"}`)
	o.secret("osc-other", `{"`+PoolLabel+`": "other"}`)
	o.secret("gardener-opentelemetry-collector", `{}`)
	o.secret("other", `{}`)
	a := newAgent(t, c, "node-1")

	// The pool of the machine is not known before its Node is there.
	a.judge(t, slices.Concat(beforeNode, always, []rule{
		{name: "another document", path: system + "/secrets/osc-other", want: 200},
	}))

	o.node("node-2", "osc-other")
	o.node("node-1", "osc-own")
	a.judge(t, slices.Concat(withNode, always))
}

// request asks for the certificate of a machine's agent with the rights of ask.
// It returns "Approved" or "Denied", and why.
func (o objects) request(machine string, ask func(body string) error) (decision, why string) {
	o.t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		o.t.Fatal(err)
	}

	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: AgentPrefix + machine, Organization: []string{AgentGroup}},
	}, key)
	if err != nil {
		o.t.Fatal(err)
	}

	name := "node-agent-csr-" + strings.ToLower(rand.Text())
	body := fmt.Sprintf(`{
		"metadata": {"name": %q},
		"spec": {
			"request": %q,
			"signerName": "kubernetes.io/kube-apiserver-client",
			"usages": ["digital signature", "key encipherment", "client auth"]
		}
	}`, name, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE REQUEST",
		Bytes: der,
	})))
	if err := ask(body); err != nil {
		o.t.Fatal(err)
	}

	until(o.t, func() bool {
		text, err := o.cluster.Do(http.MethodGet, requests+"/"+name, "")
		if err != nil {
			o.t.Fatal(err)
		}

		var csr struct {
			Status struct {
				Conditions []struct{ Type, Message string }
			}
		}
		if err := json.Unmarshal(text, &csr); err != nil {
			o.t.Fatal(err)
		}

		for _, c := range csr.Status.Conditions {
			decision = c.Type
			why = c.Message
		}

		return decision != ""
	})

	return decision, why
}

func TestApproverOfNodeAgents(t *testing.T) {
	c := Run(t, Options{MachineNamespace: namespace})
	o := objects{t, c}
	o.machine("machine-1", "", "osc-own")
	token := c.BootstrapToken(t)
	byToken := func(body string) error {
		_, err := c.DoAs(token, http.MethodPost, requests, body)
		return err
	}

	byAgent := func(body string) error {
		code, message := newAgent(t, c, "machine-1").ask(http.MethodPost, requests, body)
		if code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, message)
		}
		return nil
	}

	want := func(name, machine string, ask func(string) error, decision, why string) {
		t.Helper()
		got, message := o.request(machine, ask)
		if got != decision || !strings.Contains(message, why) {
			t.Errorf("%s: %s: %s; want %s: %s", name, got, message, decision, why)
		}
	}

	// The approver sees Machines by a watch, which lags.
	until(t, func() bool {
		decision, _ := o.request("machine-1", byToken)
		return decision == "Approved"
	})

	want("first boot of an unknown machine", "machine-2", byToken, "Denied",
		`machine "machine-2" does not exist`)

	o.node("node-1", "osc-own")

	_, err := c.Do(http.MethodPatch, machines+"/machine-1",
		`{"metadata": {"labels": {"node": "node-1"}}}`)
	if err != nil {
		t.Fatal(err)
	}

	until(t, func() bool {
		decision, why := o.request("machine-1", byToken)
		return decision == "Denied" && strings.Contains(why, "already bootstrapped")
	})

	want("renewal", "machine-1", byAgent, "Approved", "all checks passed")
	want("renewal as another machine", "machine-2", byAgent, "Denied", "")
}
