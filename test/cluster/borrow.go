package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Lender keeps control planes for tests that have them one after the other: to start one
// takes two seconds of a processor. The zero value has none yet.
type Lender struct {
	mu   sync.Mutex
	idle []*lent
}

// lent is a control plane with what it has in etcd from its start: a set of keys.
type lent struct {
	*Cluster
	options Options
	keys    map[string]bool
}

// Borrow is Start, of a control plane that other tests may have had. It has nothing of
// theirs any more. A test must not change an object that a control plane has from its
// start.
//
// Its controllers do not judge Nodes: they would take one for the Node that had its name
// before.
func (l *Lender) Borrow(t testing.TB, o Options) *Cluster {
	t.Helper()
	if _, measures := t.(*testing.B); measures {
		return Start(t, o) // What other tests have left in its memory would be measured.
	}

	o.LeavesNodes = true
	c := l.take(t, o)
	if c == nil {
		c = startLent(t, o)
	}

	t.Cleanup(func() {
		c.showLogs(t)
		if t.Failed() {
			c.close()
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle = append(l.idle, c)
	})

	return c.Cluster
}

// Close ends the control planes that are kept.
func (l *Lender) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.idle {
		c.close()
	}
	l.idle = nil
}

// take returns a control plane that nobody uses, and that has nothing of the tests before;
// nil for none.
func (l *Lender) take(t testing.TB, o Options) *lent {
	for {
		c := l.longestIdle(o)
		if c == nil {
			return nil
		}
		err := c.clear()
		if err == nil {
			return c
		}
		t.Logf("a control plane is not used again: %v", err)
		c.close()
	}
}

// longestIdle returns the control plane that nobody has used for the longest time.
func (l *Lender) longestIdle(o Options) *lent {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.idle, func(c *lent) bool { return reflect.DeepEqual(c.options, o) })
	if i < 0 {
		return nil
	}
	c := l.idle[i]
	l.idle = slices.Delete(l.idle, i, i+1)
	return c
}

// startLent starts a control plane that outlives t.
func startLent(t testing.TB, o Options) *lent {
	t.Helper()
	found := programs(t, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	dir := must(os.MkdirTemp("", "loam-cluster-"))(t)
	c := &lent{options: o}
	var err error
	c.Cluster, err = Run(t.Context(), dir, found, o)
	if err != nil {
		_ = os.RemoveAll(dir)
		t.Fatal(err)
	}
	c.keys = must(c.stored())(t)
	return c
}

// close ends the control plane, and removes its files.
func (c *lent) close() {
	c.Close()
	_ = os.RemoveAll(c.dir)
}

// made are the kinds of objects that tests make, by the name that they have in etcd, with
// their paths in the API. Keys are KIND/NAME or KIND/NAMESPACE/NAME below registry.
var made = map[string]string{
	"certificatesigningrequests":        csrPath,
	"clusterrolebindings":               rbacPath + "clusterrolebindings",
	"clusterroles":                      rbacPath + "clusterroles",
	"events":                            "/api/v1/namespaces/NAMESPACE/events",
	"flowschemas":                       "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
	"leases":                            "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases",
	"minions":                           "/api/v1/nodes",
	"poddisruptionbudgets":              "/apis/policy/v1/namespaces/NAMESPACE/poddisruptionbudgets",
	"pods":                              "/api/v1/namespaces/NAMESPACE/pods",
	"rolebindings":                      rbacPath + "namespaces/NAMESPACE/rolebindings",
	"roles":                             rbacPath + "namespaces/NAMESPACE/roles",
	"secrets":                           "/api/v1/namespaces/NAMESPACE/secrets",
	"validatingadmissionpolicies":       admissionPath + "validatingadmissionpolicies",
	"validatingadmissionpolicybindings": admissionPath + "validatingadmissionpolicybindings",
}

const (
	rbacPath      = "/apis/rbac.authorization.k8s.io/v1/"
	admissionPath = "/apis/admissionregistration.k8s.io/v1/"
)

// own are what a control plane makes by itself after its start, as patterns of the keys
// below registry.
var own = []string{
	"configmaps/*/kube-root-ca.crt",
	"endpointslices/default/kubernetes",
	"events/default/kubernetes.*", // They are there for an hour.
	"ipaddresses/*",
	"leases/kube-system/apiserver-*",
	"masterleases/*",
	"peerserverleases/*",
	"serviceaccounts/*/*",
	"services/*/default/kubernetes",
}

// isOwn reports whether a control plane makes by itself what etcd has as registry and key.
func isOwn(key string) bool {
	return slices.ContainsFunc(own, func(pattern string) bool {
		matches, _ := path.Match(pattern, key)
		return matches
	})
}

// clear deletes what was made since the start, until nothing comes any more: the API server
// may still be busy with a request of one who has ended. When it returns, the API server
// shows nothing of it, even to one who is content with what it remembers.
func (c *lent) clear() error {
	collections := map[string]bool{}
	end := time.Now().Add(hostTimeout)
	for {
		left, err := c.left()
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not go", left[0])
		}
		for _, object := range left {
			collections[path.Dir(object)] = true
			if err := c.remove(object); err != nil {
				return err
			}
		}
	}

	for collection := range collections {
		if err := c.forget(collection); err != nil {
			return err
		}
	}
	return nil
}

// left returns the paths of the objects that tests have made, in the API. What is of a
// kind that is not in made is an error, as is that something is gone.
func (c *lent) left() ([]string, error) {
	stored, err := c.stored()
	if err != nil {
		return nil, err
	}

	for key := range c.keys {
		if !stored[key] && !isOwn(strings.TrimPrefix(key, registry)) {
			return nil, fmt.Errorf("a test has removed %s", key)
		}
	}

	var objects []string
	for key := range stored {
		short := strings.TrimPrefix(key, registry)
		if c.keys[key] || isOwn(short) {
			continue
		}
		kind, name, _ := strings.Cut(short, "/")
		if made[kind] == "" {
			return nil, fmt.Errorf("a test has left %s", key)
		}
		namespace, name := path.Split(name)
		collection := strings.Replace(made[kind], "NAMESPACE/", namespace, 1)
		objects = append(objects, collection+"/"+name)
	}
	return objects, nil
}

// remove deletes an object, which may be gone.
func (c *lent) remove(object string) error {
	_, err := c.Do(http.MethodDelete, object, `{"gracePeriodSeconds": 0}`)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil
	}
	return err
}

// forget waits until what the API server remembers of a collection is as new as what
// etcd has now.
func (c *lent) forget(collection string) error {
	text, err := c.Do(http.MethodGet, collection+"?limit=1", "")
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%s: %w", collection, err)
	}

	_, err = c.Do(http.MethodGet, collection+"?"+url.Values{
		"resourceVersion":      {list.Metadata.ResourceVersion},
		"resourceVersionMatch": {"NotOlderThan"},
	}.Encode(), "")
	return err
}

// registry begins the keys of the API server in etcd.
const registry = "/registry/"

// stored returns the keys of the API server in etcd.
func (c *lent) stored() (map[string]bool, error) {
	encode := base64.StdEncoding.EncodeToString
	client := &http.Client{Timeout: hostTimeout}
	defer client.CloseIdleConnections()
	answer, err := do(client, request{
		method: http.MethodPost,
		url:    c.etcd + "/v3/kv/range",
		body: fmt.Sprintf(`{"key": %q, "range_end": %q, "keys_only": true}`,
			encode([]byte(registry)), encode([]byte("/registry0"))),
	})
	if err != nil {
		return nil, err
	}

	var found struct{ Kvs []struct{ Key []byte } }
	if err := json.Unmarshal(answer.body, &found); err != nil {
		return nil, fmt.Errorf("keys in etcd: %w", err)
	}
	keys := map[string]bool{}
	for _, kv := range found.Kvs {
		keys[string(kv.Key)] = true
	}
	return keys, nil
}
