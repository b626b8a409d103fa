package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/addons"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/upstream"
)

const (
	recordPath  = "/api/v1/namespaces/kube-system/configmaps/loam-cluster"
	coreDNSPath = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
	dnsPath     = "/api/v1/namespaces/kube-system/services/kube-dns"
)

// agent is the part of the agent that keeps the cluster as the record says.
type agent struct {
	*machine
	store plane.Store
	local *local.Follower
	end   func()
}

// newAgent returns the agent of a machine, which does not run yet.
func newAgent(t *testing.T, m *machine) *agent {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })

	a := &agent{machine: m, store: plane.NewStore(durable.New(root, nil))}
	err = a.store.WriteRecord(m.record)
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{}
	for _, name := range bundle.Programs {
		programs[name] = "/bin/true" // Nothing here starts one.
	}
	images := map[string]cluster.Image{upstream.CoreDNSImage: {}, upstream.PauseImage: {}}
	err = cluster.WriteBundle(
		filepath.Join(dir, bundle.Directory, version), version, programs, images)
	if err != nil {
		t.Fatal(err)
	}

	a.local = local.New(m.record, local.Config{
		Store:  a.store,
		Root:   dir,
		Name:   nodeName,
		Uptime: func() time.Duration { return time.Hour },
		API:    func() (*api.Client, error) { return api.Over(m.admin.Transport), nil },
		Log:    zap.NewNop(),
	})
	return a
}

// run starts the agent, again if it ran.
func (a *agent) run(t *testing.T) {
	t.Helper()
	a.halt()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.local.Run(ctx) })
	a.end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(a.halt)
}

func (a *agent) halt() {
	if a.end != nil {
		a.end()
	}
	a.end = nil
}

// get waits until an object is as ready says.
func (a *agent) get(t *testing.T, path string, into any, ready func() bool) {
	t.Helper()
	a.await(t, path, func(ctx context.Context) error {
		have, err := a.do(ctx, http.MethodGet, path, "")
		if err == nil {
			err = json.Unmarshal(have.body, into)
		}
		if err == nil && !ready() {
			err = fmt.Errorf("it is %s", have.body)
		}
		return err
	})
}

// published waits until the ConfigMap has that record.
func (a *agent) published(t *testing.T, want plane.Record) {
	t.Helper()
	var object struct{ Data map[string]string }
	a.get(t, recordPath, &object, func() bool {
		return object.Data[plane.RecordField] == string(want.Text())
	})
}

// patch changes the record of the ConfigMap, as kubectl edit does.
func (a *agent) patch(t *testing.T, text string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"data": map[string]string{plane.RecordField: text}})
	if err != nil {
		t.Fatal(err)
	}
	a.must(t, http.MethodPatch, recordPath, string(body))
}

// followed waits until the node has that record.
func (a *agent) followed(t *testing.T, want plane.Record) {
	t.Helper()
	a.await(t, "the record of the node", func(context.Context) error {
		have, _, err := a.store.Record()
		if err == nil && string(have.Text()) != string(want.Text()) {
			err = fmt.Errorf("it is %s", have.Text())
		}
		return err
	})
}

// TestTheClusterIsAsItsRecordSays has the agent keep record and add-ons at a real
// API server.
func TestTheClusterIsAsItsRecordSays(t *testing.T) {
	t.Parallel()
	m := newCluster(t)
	m.boot(t)
	a := newAgent(t, m)
	a.inPlaceOf(t)
	a.run(t)
	a.published(t, m.record)
	a.checkLabel(t)
	a.checkTaint(t)

	var deployment struct{ Spec struct{ Replicas int } }
	a.get(t, coreDNSPath, &deployment, func() bool { return deployment.Spec.Replicas == 1 })
	var service struct{ Spec struct{ ClusterIP string } }
	a.get(t, dnsPath, &service, func() bool { return service.Spec.ClusterIP == "10.96.0.10" })

	// What an operator has set stays when the agent starts again, and what it has
	// deleted comes back.
	m.must(t, http.MethodPatch, coreDNSPath, `{"spec":{"replicas":3}}`)
	m.must(t, http.MethodDelete, dnsPath, "")
	a.run(t)
	a.get(t, dnsPath, &service, func() bool { return service.Spec.ClusterIP == "10.96.0.10" })
	a.get(t, coreDNSPath, &deployment, func() bool { return deployment.Spec.Replicas == 3 })

	a.checkObjects(t)
	a.checkPolicies(t)

	a.follow(t)
	a.prune(t)
}

// checkObjects: what `loam cluster status` says of CoreDNS. No pod runs here.
func (a *agent) checkObjects(t *testing.T) {
	t.Helper()
	a.halt() // It would put back what is changed here.
	objects, err := addons.Of(a.record, []string{upstream.CoreDNSImage})
	if err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		t.Helper()
		err := addons.Check(t.Context(), api.Over(a.admin.Transport), objects)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}

	says("Deployment coredns: no pod of it is available")
	a.must(t, http.MethodPatch, dnsPath, `{"metadata":{"labels":{"k8s-app":"other"}}}`)
	says("Service kube-dns: something has changed it")
	a.must(t, http.MethodDelete, dnsPath, "")
	says("Service kube-dns: absent")
	a.run(t)
	a.get(t, dnsPath, &struct{}{}, func() bool { return true })
}

// checkPolicies: a kubelet gives its Node no label, from the start and after somebody
// has deleted the policy.
func (a *agent) checkPolicies(t *testing.T) {
	t.Helper()
	own := client{http.Client{Timeout: a.admin.Timeout, Transport: asKubelet{a.admin.Transport}}}
	refuses := func() {
		t.Helper()
		a.await(t, "a refusal", func(ctx context.Context) error {
			_, err := own.do(ctx, http.MethodPatch, "/api/v1/nodes/"+nodeName+"?dryRun=All",
				`{"metadata":{"labels":{"a":"b"}}}`)
			if err != nil && strings.Contains(err.Error(), "loam-own-labels") {
				return nil
			}
			return fmt.Errorf("not refused by the policy: %v", err)
		})
	}
	refuses()

	objects, err := addons.Policies()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		a.must(t, http.MethodDelete, o.Path(), "")
	}
	a.run(t)
	refuses()
}

// asKubelet makes the requests of an administrator those of the node's kubelet.
type asKubelet struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (k asKubelet) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Impersonate-User", "system:node:"+nodeName)
	r.Header.Set("Impersonate-Group", "system:nodes")
	return k.RoundTripper.RoundTrip(r)
}

// checkLabel: the Node gets its label when the kubelet has made it.
func (a *agent) checkLabel(t *testing.T) {
	t.Helper()
	a.says(t, "has not registered the Node")
	a.must(t, http.MethodPost, "/api/v1/nodes",
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+nodeName+`"}}`)

	var object struct {
		Metadata struct{ Labels map[string]string }
	}
	a.get(t, "/api/v1/nodes/"+nodeName, &object, func() bool {
		_, has := object.Metadata.Labels["node-role.kubernetes.io/control-plane"]
		return has
	})
}

// checkTaint: the Node has its taint or not as the record says, beside those of others.
func (a *agent) checkTaint(t *testing.T) {
	t.Helper()
	path := "/api/v1/nodes/" + nodeName
	a.must(t, http.MethodPatch, path, `{"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]}}`)
	for _, schedulable := range []bool{false, true} {
		r := a.record
		r.Schedulable = &schedulable
		if err := a.store.WriteRecord(r); err != nil {
			t.Fatal(err)
		}

		var object struct {
			Spec struct{ Taints []struct{ Key string } }
		}
		a.get(t, path, &object, func() bool {
			var keys []string
			for _, taint := range object.Spec.Taints {
				keys = append(keys, taint.Key)
			}
			return slices.Contains(keys, plane.TaintKey) != schedulable && slices.Contains(keys, "gpu")
		})
	}
	a.published(t, a.record)
}

// inPlaceOf has a Deployment of others in the place of CoreDNS that cannot become
// ours: the rest of CoreDNS is applied, and the log says what to do.
func (a *agent) inPlaceOf(t *testing.T) {
	t.Helper()
	a.must(t, http.MethodPost, "/apis/apps/v1/namespaces/kube-system/deployments", `{
		"metadata":{"name":"coredns"},
		"spec":{
			"selector":{"matchLabels":{"app":"other"}},
			"template":{
				"metadata":{"labels":{"app":"other"}},
				"spec":{"containers":[{"name":"dns","image":"registry.example/dns:1"}]}}}}`)
	a.run(t)
	a.get(t, dnsPath, &struct{}{}, func() bool { return true })
	a.says(t, "apply Deployment coredns", "; hint: delete what is in its place")
	a.must(t, http.MethodDelete, coreDNSPath, "")
}

// says waits until the status has a problem with these texts.
func (a *agent) says(t *testing.T, texts ...string) {
	t.Helper()
	a.await(t, "the status", func(context.Context) error {
		s := a.local.State()
		for _, text := range texts {
			if s.Ready || !strings.Contains(s.Problem, text) {
				return fmt.Errorf("it is %+v, want %q", s, text)
			}
		}
		return nil
	})
}

// follow changes the record on both sides.
func (a *agent) follow(t *testing.T) {
	t.Helper()
	changed := a.record
	changed.Audit.Policy = plane.AuditMetadata
	a.patch(t, string(changed.Text()))
	a.followed(t, changed)

	// A record that the cluster cannot have is refused, and stays for its author.
	a.await(t, "the status", func(context.Context) error {
		if s := a.local.State(); !s.Ready || s.Problem != "" {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	bad := changed
	bad.Pods = []string{"10.1.0.0/16"}
	a.patch(t, string(bad.Text()))
	a.says(t, "pods")
	a.followed(t, changed)
	a.published(t, bad)

	// The agent goes on after a restart of the API server, and with a good record.
	a.kill("kube-apiserver.service")
	a.start(t, plane.Render(a.record, a.node), "kube-apiserver.service")
	changed.Audit.Policy = plane.AuditNone
	a.patch(t, string(changed.Text()))
	a.followed(t, changed)

	// The node's own record changes while the API server is away. The ConfigMap
	// has a record then that the cluster cannot go back to.
	a.kill("kube-apiserver.service")
	changed.CertificateNames = []string{"api.plant.example"}
	changed.Encrypt = []string{"secrets", "configmaps"}
	err := a.store.WriteRecord(changed)
	if err != nil {
		t.Fatal(err)
	}
	a.start(t, plane.Render(a.record, a.node), "kube-apiserver.service")
	a.published(t, changed)

	a.must(t, http.MethodDelete, recordPath, "")
	a.published(t, changed)
	a.record = changed
}

// prune takes CoreDNS out of the record. An object of others that has its label
// stays.
func (a *agent) prune(t *testing.T) {
	t.Helper()
	a.must(t, http.MethodPost, "/api/v1/namespaces/kube-system/configmaps",
		`{"metadata":{"name":"other","labels":{"`+addons.Label+`":"coredns"}}}`)
	a.record.AddOns = []string{plane.AddOnProxy}
	err := a.store.WriteRecord(a.record)
	if err != nil {
		t.Fatal(err)
	}

	objects, err := addons.Of(plane.NewRecord(plane.Settings{}), []string{upstream.CoreDNSImage})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		a.await(t, "the end of "+o.Path(), func(ctx context.Context) error {
			have, err := a.do(ctx, http.MethodGet, o.Path(), "")
			if err == nil {
				return fmt.Errorf("it is %s", have.body)
			}
			if !strings.Contains(err.Error(), "404") {
				return err
			}
			return nil
		})
	}
	a.must(t, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/other", "")
}

// kubeadmAddOn returns the objects of an add-on of kubeadm, by their kinds.
func kubeadmAddOn(t *testing.T, name string, n networks) map[string]map[string]any {
	t.Helper()
	kubeadm := cluster.Program(t, "kubeadm")
	config := filepath.Join(t.TempDir(), "config")
	text := `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: "` + n.address + `", bindPort: 6443}
nodeRegistration: {name: ` + nodeName + `}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v` + version + `
networking: {podSubnet: "` + n.pods + `", serviceSubnet: "` + n.services + `"}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
`
	err := os.WriteFile(config, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), kubeadm, "init", "phase", "addon", name,
		"--print-manifest", "--config="+config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	if err != nil {
		t.Fatal(err)
	}
	printed, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("kubeadm: %v\n%s", err, printed)
	}

	objects := map[string]map[string]any{}
	for document := range strings.SplitSeq(string(printed), "\n---\n") {
		var object map[string]any
		err := yaml.Unmarshal([]byte(document), &object)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if kind, _ := object["kind"].(string); kind != "" {
			objects[kind] = object
		}
	}
	return objects
}

// TestAddOnsAreThoseOfKubeadm compares CoreDNS, and the configuration of
// kube-proxy.
func TestAddOnsAreThoseOfKubeadm(t *testing.T) {
	var want intended
	read(t, "testdata/kubeadm.yaml", &want)
	n := networks{"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"}
	for _, d := range slices.Concat(want.CoreDNS, want.Proxy) {
		if d.Why == "" {
			t.Errorf("%s: no reason for the difference", d.Name)
		}
	}

	theirs := map[string]string{}
	for kind, object := range kubeadmAddOn(t, "coredns", n) {
		flatten(theirs, kind, named(object))
	}
	ours := ourCoreDNS(t, record(t, n))
	splitCorefile(theirs)
	splitCorefile(ours)
	compare(t, want.CoreDNS, compared(set(theirs), set(ours)))

	var their, our map[string]any
	data := kubeadmAddOn(t, "kube-proxy", n)["ConfigMap"]["data"].(map[string]any)
	err := yaml.Unmarshal([]byte(data["config.conf"].(string)), &their)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plane.Render(record(t, n), node(n)).Files {
		if f.Path == "/etc/kubernetes/proxy.json" {
			decode(t, f, &our)
		}
	}
	theirs = map[string]string{}
	ours = map[string]string{}
	flatten(theirs, "", their)
	flatten(ours, "", our)
	compare(t, want.Proxy, compared(set(theirs), ours))
}

// ourCoreDNS returns the fields of our objects, after their kinds, without the
// labels that all of them have.
func ourCoreDNS(t *testing.T, r plane.Record) map[string]string {
	t.Helper()
	objects, err := addons.Of(r, []string{upstream.CoreDNSImage})
	if err != nil {
		t.Fatal(err)
	}

	ours := map[string]string{}
	for _, o := range objects {
		var object map[string]any
		text, err := json.Marshal(o.Body())
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		flatten(ours, fmt.Sprint(object["kind"]), named(object))
	}
	maps.DeleteFunc(ours, func(name, _ string) bool {
		return strings.HasSuffix(name, "labels."+addons.Label) || strings.HasSuffix(name, "/managed-by")
	})
	return ours
}

// splitCorefile makes a field of each line of the Corefile.
func splitCorefile(values map[string]string) {
	const name = "ConfigMap.data.Corefile"
	for line := range strings.SplitSeq(values[name], `\n`) {
		if line = strings.TrimSpace(line); line != "" && line != "}" {
			values[name+"."+line] = "is there"
		}
	}
	delete(values, name)
}

// named returns a value in which lists of objects with names are objects by these.
func named(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = named(field)
		}
	case []any:
		byName := map[string]any{}
		for _, item := range value {
			if object, isObject := item.(map[string]any); isObject && object["name"] != nil {
				byName[fmt.Sprint(object["name"])] = named(object)
			}
		}
		if len(byName) == len(value) && len(value) > 0 {
			return byName
		}
	}
	return value
}

// set returns the fields that are not at their zero.
func set(values map[string]string) map[string]string {
	maps.DeleteFunc(values, func(_, value string) bool {
		return value == "" || value == "null" || value == "false"
	})
	return values
}
