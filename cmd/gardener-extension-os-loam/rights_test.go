package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// access is what one request needs, or one right of the chart allows.
type access struct{ group, resource, name, verb string }

func (a access) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", a.verb, a.group, a.resource, a.name))
}

// accessOf returns what a request to the API server needs, false for one that is about
// no resource. It has the verbs of RBAC (Kubernetes, API access control, Authorization
// overview).
func accessOf(r *http.Request) (access, bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var a access
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		a.group = parts[1]
		parts = parts[3:]
	default:
		return a, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}

	a.resource = parts[0]
	if len(parts) > 1 {
		a.name = parts[1]
	}
	if len(parts) > 2 {
		a.resource += "/" + parts[2]
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		a.verb = "watch"
	case r.Method == http.MethodGet && a.name == "":
		a.verb = "list"
	default:
		a.verb = map[string]string{
			http.MethodGet:    "get",
			http.MethodPost:   "create",
			http.MethodPut:    "update",
			http.MethodPatch:  "patch",
			http.MethodDelete: "delete",
		}[r.Method]
	}
	return a, true
}

// recorder forwards requests to an API server, and records what they need.
type recorder struct {
	mu   sync.Mutex
	seen map[access]bool
}

// front returns a kubeconfig for a server that records, in front of the server of
// another kubeconfig.
func (r *recorder) front(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}

	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(at) },
		Transport:     transport,
		FlushInterval: -1, // Watches have no end.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if a, ok := accessOf(q); ok {
			r.mu.Lock()
			r.seen[a] = true
			r.mu.Unlock()
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)

	text, err := yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": "front",
		"contexts": []any{map[string]any{
			"name":    "front",
			"context": map[string]any{"cluster": "front", "user": "front"},
		}},
		"clusters": []any{map[string]any{
			"name":    "front",
			"cluster": map[string]any{"server": server.URL},
		}},
		"users": []any{map[string]any{"name": "front", "user": map[string]any{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rights returns what the rules of the chart allow.
func rights(t *testing.T) map[access]bool {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, text := range renderChart(t) {
		for _, object := range decode(t, text) {
			switch object := object.(type) {
			case *rbacv1.ClusterRole:
				rules = append(rules, object.Rules...)
			case *rbacv1.Role:
				rules = append(rules, object.Rules...)
			}
		}
	}

	all := map[access]bool{}
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all[access{group, resource, name, verb}] = true
					}
				}
			}
		}
	}
	return all
}

// without are rights that no request of TestInASeed needs, and why the chart has them.
var without = map[access]string{
	{extensions, "operatingsystemconfigs", "", "list"}: noStream,
	{extensions, "clusters", "", "list"}:               noStream,
	{"", "namespaces", "", "list"}:                     noStream,
	{"", "events", "", "patch"}:                        "an Event that repeats",
	{extensions, "operatingsystemconfigs/finalizers", "", "update"}: "the owner of a Secret, where " +
		"the admission plugin OwnerReferencesPermissionEnforcement runs",
}

const (
	extensions = "extensions.gardener.cloud"
	noStream   = "an API server that does not begin a watch with a list"
)

// has reports whether there was a request.
func (r *recorder) has(a access) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[a]
}

// check compares the requests with the rights of the chart.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()

	allowed := rights(t)
	used := map[access]bool{}
	for a := range r.seen {
		ofAll := a
		ofAll.name = ""
		switch {
		case allowed[a]:
			used[a] = true
		case allowed[ofAll]:
			used[ofAll] = true
		default:
			t.Errorf("the chart does not allow %s", a)
		}
	}

	byText := func(a, b access) int { return cmp.Compare(a.String(), b.String()) }
	for _, a := range slices.SortedFunc(maps.Keys(allowed), byText) {
		why, isKnown := without[a]
		switch {
		case !used[a] && !isKnown:
			t.Errorf("the chart allows %s, and nothing needs it", a)
		case used[a] && isKnown:
			t.Errorf("%s is needed after all, and not only as %s", a, why)
		}
	}
	for a := range without {
		if !allowed[a] {
			t.Errorf("%s has a reason, and the chart does not allow it", a)
		}
	}
}

// checkForeignSecrets has the extension, in the place of an intruder, reach for the
// Secrets of others.
func (s seed) checkForeignSecrets(t *testing.T, extension client.Client) {
	t.Helper()
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: shootNamespace, Name: "ca"},
		Data:       map[string][]byte{"key": []byte("secret")},
	}
	if err := s.client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	owner := []metav1.OwnerReference{{
		APIVersion: "extensions.gardener.cloud/v1alpha1",
		Kind:       "OperatingSystemConfig",
		Name:       "x",
		UID:        "1",
	}}
	unowned := foreign.DeepCopy()
	unowned.ResourceVersion = ""
	unowned.Name = "osc-result-x"
	if err := s.client.Create(t.Context(), unowned); err != nil {
		t.Fatal(err)
	}

	named := func(namespace, name string, owners []metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace,
			Name:            name,
			OwnerReferences: owners,
		}}
	}
	empty := client.RawPatch(types.MergePatchType, []byte("{}"))
	s.await(t, "the policy, which the API server learns of by a watch", func() error {
		err := extension.Patch(t.Context(), named(shootNamespace, "ca", nil), empty)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("not refused: %v", err)
		}
		return nil
	})
	taken := `{"metadata":{"ownerReferences":[{"apiVersion":"extensions.gardener.cloud/v1alpha1",` +
		`"kind":"OperatingSystemConfig","name":"x","uid":"1"}]}}`

	for _, test := range []struct {
		name string
		do   func() error
	}{
		{"reads one", func() error {
			return extension.Get(t.Context(), client.ObjectKeyFromObject(foreign), &corev1.Secret{})
		}},
		{"lists them", func() error {
			return extension.List(t.Context(), &corev1.SecretList{})
		}},
		{"reads one by a patch", func() error {
			return extension.Patch(t.Context(), named(shootNamespace, "ca", nil), empty)
		}},
		{"writes one", func() error {
			return extension.Patch(t.Context(), named(shootNamespace, "ca", nil),
				client.RawPatch(types.MergePatchType, []byte(`{"data":{"key":"eA=="}}`)))
		}},
		{"takes one over by its name", func() error {
			return extension.Patch(t.Context(), named(shootNamespace, "osc-result-x", nil),
				client.RawPatch(types.MergePatchType, []byte(taken)))
		}},
		{"creates one of no OperatingSystemConfig", func() error {
			return extension.Create(t.Context(), named("kube-system", "osc-result-y", nil))
		}},
		{"creates one of any name", func() error {
			return extension.Create(t.Context(), named("kube-system", "any", owner))
		}},
		{"deletes one", func() error {
			return extension.Delete(t.Context(), named(shootNamespace, "ca", nil))
		}},
	} {
		t.Run("the extension "+test.name, func(t *testing.T) {
			err := test.do()
			isRefused := apierrors.IsForbidden(err) ||
				(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"))
			if !isRefused {
				t.Errorf("not refused: %v", err)
			}
		})
	}
}
