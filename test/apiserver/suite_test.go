package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/apiserver"
	"github.com/loam-os/loam/test/cluster"
)

const (
	nodes   = "/api/v1/nodes"
	secrets = "/api/v1/namespaces/kube-system/secrets"
	pods    = "/api/v1/namespaces/default/pods"
	leases  = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	events  = "/api/v1/namespaces/default/events"

	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"

	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asMetadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

func TestTheServerInMemory(t *testing.T) {
	server := apiserver.New()
	suite(t, client{
		http:   &http.Client{Transport: &apiserver.Transport{Server: server}},
		url:    "http://memory",
		forget: func(*testing.T) { server.Compact() },
	})
}

func TestTheServerOfKubernetes(t *testing.T) {
	// Without controllers, nothing else changes the objects, and no controller makes
	// the account that pods need.
	c := cluster.Start(t, cluster.Options{})
	_, err := c.Do(http.MethodPost, "/api/v1/namespaces/default/serviceaccounts",
		`{"metadata": {"name": "default"}}`)
	if err != nil {
		t.Fatal(err)
	}

	suite(t, client{
		http: c.AdminClient(),
		url:  c.URL(),
		forget: func(t *testing.T) { // A new process knows no earlier versions.
			c.StopAPI(t)
			c.StartAPI(t)
		},
	})
}

// client asks a server.
type client struct {
	http *http.Client
	url  string

	// forget makes the server forget the versions of objects but the last.
	forget func(t *testing.T)
}

// object is an object of the API, as JSON.
type object map[string]any

// at returns what is at a path of keys, nil if absent.
func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func (o object) version() string { return fmt.Sprint(o.at("metadata", "resourceVersion")) }

func (o object) items(t *testing.T, key string) []object {
	t.Helper()
	list, ok := o[key].([]any)
	if !ok {
		t.Fatalf("no %s in %v", key, o)
	}
	var items []object
	for _, item := range list {
		items = append(items, item.(map[string]any))
	}
	return items
}

// do sends a request; kind is that of the body, or accepted for a GET.
func (c client) do(t *testing.T, method, path, kind, body string) (int, object) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodGet {
		r.Header.Set("Accept", kind)
	} else {
		r.Header.Set("Content-Type", kind)
	}
	a, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("%s %s: %d %s: %v", method, path, a.StatusCode, text, err)
	}
	if retry := a.Header.Get("Retry-After"); retry != "" {
		o["retryAfter"] = retry
	}
	return a.StatusCode, o
}

// must is do for a request that has the answer code.
func (c client) must(t *testing.T, code int, method, path, kind, body string) object {
	t.Helper()
	got, o := c.do(t, method, path, kind, body)
	if got != code {
		t.Fatalf("%s %s %s: %d, want %d: %v", method, path, body, got, code, o)
	}
	return o
}

func (c client) get(t *testing.T, path string) object {
	t.Helper()
	return c.must(t, 200, "GET", path, "application/json", "")
}

func (c client) create(t *testing.T, path, body string) object {
	t.Helper()
	return c.must(t, 201, "POST", path, "application/json", body)
}

func (c client) patch(t *testing.T, path, kind, body string) object {
	t.Helper()
	return c.must(t, 200, "PATCH", path, kind, body)
}

func (c client) put(t *testing.T, code int, path string, o object) object {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return c.must(t, code, "PUT", path, "application/json", string(text))
}

// event is what a watch has sent: a type, and the name of its object.
type event struct {
	kind, name string
	object     object
}

// watch returns a function that returns the next event of a watch.
func (c client) watch(t *testing.T, path string) func() event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		a.Body.Close()
	})
	if a.StatusCode != 200 {
		t.Fatalf("watch %s: %d", path, a.StatusCode)
	}

	lines := bufio.NewReader(a.Body)
	return func() event {
		t.Helper()
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Type   string
			Object object
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		return event{e.Type, fmt.Sprint(e.Object.at("metadata", "name")), e.Object}
	}
}

// expect compares the next events with "TYPE name". Bookmarks come at any time: they
// count only if one is wanted.
func expect(t *testing.T, next func() event, want ...string) (last event) {
	t.Helper()
	var got []string
	for _, wanted := range want {
		for last = next(); last.kind == "BOOKMARK" && !strings.HasPrefix(wanted, last.kind); {
			last = next()
		}
		got = append(got, last.kind+" "+last.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	return last
}

// same compares what is at a path of keys.
func same(t *testing.T, want any, o object, path ...string) {
	t.Helper()
	if diff := cmp.Diff(want, o.at(path...)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", strings.Join(path, "."), diff)
	}
}

func names(items []object) []string {
	var all []string
	for _, o := range items {
		all = append(all, fmt.Sprint(o.at("metadata", "name")))
	}
	return all
}

// suite are statements about an API server that agents depend on.
func suite(t *testing.T, c client) {
	for _, statement := range []struct {
		name  string
		check func(t *testing.T, c client)
	}{
		{"what is created twice exists already", createdTwice},
		{"a new object has a UID, a time and a version", newObject},
		{"an absent object is not found", absent},
		{"an unknown path is not found", unknownPath},
		{"a name is needed", needsName},
		{"an update of an old version conflicts", oldVersion},
		{"an update with another UID conflicts", otherUID},
		{"an update of a Lease needs a version, one of a Node does not", unconditional},
		{"an update of an absent Lease creates it only without a version", updateOfAbsent},
		{"an update that changes nothing keeps the version", noChange},
		{"a merge patch with null removes an annotation", mergeNull},
		{"a patch with a version is a compare-and-swap", patchWithVersion},
		{"a patch with the UID of a Node before is invalid", patchWithUID},
		{"a strategic patch merges conditions by their type", conditions},
		{"a patch of another type is refused", otherPatch},
		{"status and object keep each other's part", statusPart},
		{"a delete with another UID conflicts", deleteUID},
		{"an object that is born again has another UID", bornAgain},
		{"a list is in the order of names, with selectors", lists},
		{"a list in pages says how many are left", pages},
		{"a list of metadata has no spec", metadataList},
		{"a table has names and states of Nodes", table},
		{"a table without objects has rows all the same", tableWithout},
		{"a watch begins after a version", watchFrom},
		{"a watch without a version begins with what is there", watchAll},
		{"a watch begins with a list, and says where it ends", watchList},
		{"a watch by a label sees what comes and goes", watchLabel},
		{"a watch ends after its time", watchEnds},
		{"a budget keeps a pod, and lets one go", budget},
		{"an eviction of an absent pod is not found, of another UID a conflict", evictions},
		{"an evicted pod of a node has time to end", grace},
		{"the pods of a node are selected by its name", podsOfNode},
		{"a Secret has the texts as data", secretTexts},
		{"an Event is created in its namespace", eventCreated},
		{"a watch from a forgotten version is refused", watchOld},
	} {
		t.Run(statement.name, func(t *testing.T) { statement.check(t, c) })
	}
}

func node(name, labels string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {%s}}}`, name, labels)
}

func lease(name, holder string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"holderIdentity": %q}}`, name, holder)
}

func createdTwice(t *testing.T, c client) {
	c.create(t, leases, lease("twice", "a"))
	o := c.must(t, 409, "POST", leases, "application/json", lease("twice", "b"))
	same(t, "AlreadyExists", o, "reason")
	same(t, "a", c.get(t, leases+"/twice"), "spec", "holderIdentity")
}

func newObject(t *testing.T, c client) {
	o := c.create(t, nodes, node("new", ""))
	for _, key := range []string{"uid", "creationTimestamp", "resourceVersion"} {
		if text, _ := o.at("metadata", key).(string); text == "" {
			t.Errorf("no %s: %v", key, o)
		}
	}
	same(t, "Node", o, "kind")
	same(t, "v1", o, "apiVersion")

	c.must(t, 500, "POST", nodes, "application/json",
		`{"metadata": {"name": "newer", "resourceVersion": "1"}}`)
}

func absent(t *testing.T, c client) {
	for method, body := range map[string]string{"GET": "", "PATCH": "{}", "PUT": node("absent", ""), "DELETE": ""} {
		kind := "application/json"
		if method == "PATCH" {
			kind = mergePatch
		}
		o := c.must(t, 404, method, nodes+"/absent", kind, body)
		same(t, "NotFound", o, "reason")
		same(t, "absent", o, "details", "name")
	}
}

func unknownPath(t *testing.T, c client) {
	// The real one has more kinds, but not these.
	for _, path := range []string{"/api/v1/nodez", "/apis/coordination.k8s.io/v1/namespaces/a/leazes/b"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 404 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func needsName(t *testing.T, c client) {
	o := c.must(t, 422, "POST", leases, "application/json", `{"metadata": {}}`)
	same(t, "Invalid", o, "reason")
}

func oldVersion(t *testing.T, c client) {
	first := c.create(t, leases, lease("old", "a"))
	first["spec"] = object{"holderIdentity": "b"}
	c.put(t, 200, leases+"/old", first)
	first["spec"] = object{"holderIdentity": "c"}
	same(t, "Conflict", c.put(t, 409, leases+"/old", first), "reason")
	same(t, "b", c.get(t, leases+"/old"), "spec", "holderIdentity")
}

func otherUID(t *testing.T, c client) {
	first := c.create(t, leases, lease("uid", "a"))
	first["metadata"].(map[string]any)["uid"] = "00000000-0000-0000-0000-000000000000"
	same(t, "Conflict", c.put(t, 409, leases+"/uid", first), "reason")
}

func unconditional(t *testing.T, c client) {
	c.create(t, leases, lease("blind", "a"))
	c.must(t, 422, "PUT", leases+"/blind", "application/json", lease("blind", "b"))
	c.create(t, nodes, node("blind", ""))
	o := c.must(t, 200, "PUT", nodes+"/blind", "application/json", node("blind", `"a": "b"`))
	same(t, map[string]any{"a": "b"}, o, "metadata", "labels")
}

func updateOfAbsent(t *testing.T, c client) {
	first := c.create(t, leases, lease("ledger", "a"))
	c.must(t, 200, "DELETE", leases+"/ledger", "application/json", "")
	code, o := c.do(t, "PUT", leases+"/ledger", "application/json", first.text(t))
	if code != 404 && code != 409 {
		t.Errorf("an update of a deleted Lease: %d %v", code, o)
	}
	c.must(t, 404, "GET", leases+"/ledger", "application/json", "")
	c.must(t, 201, "PUT", leases+"/ledger", "application/json", lease("ledger", "b"))
}

func (o object) text(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func noChange(t *testing.T, c client) {
	first := c.create(t, nodes, node("same", `"a": "b"`))
	again := c.patch(t, nodes+"/same", mergePatch, `{"metadata": {"labels": {"a": "b"}}}`)
	if first.version() != again.version() {
		t.Errorf("version %s after %s", again.version(), first.version())
	}
	c.create(t, leases, lease("same", "a"))
	l := c.get(t, leases+"/same")
	if o := c.put(t, 200, leases+"/same", l); o.version() != l.version() {
		t.Errorf("version %s after %s", o.version(), l.version())
	}
}

func mergeNull(t *testing.T, c client) {
	c.create(t, nodes, `{"metadata": {"name": "merge", "annotations": {"a": "1", "b": "2"}}}`)
	o := c.patch(t, nodes+"/merge", mergePatch,
		`{"metadata": {"annotations": {"a": null, "c": "3", "d": null}}}`)
	same(t, map[string]any{"b": "2", "c": "3"}, o, "metadata", "annotations")
}

func patchWithVersion(t *testing.T, c client) {
	first := c.create(t, nodes, node("swap", ""))
	patch := func(version, value string) string {
		return fmt.Sprintf(`{"metadata": {"resourceVersion": %q, "labels": {"a": %q}}}`, version, value)
	}
	c.patch(t, nodes+"/swap", mergePatch, patch(first.version(), "1"))
	o := c.must(t, 409, "PATCH", nodes+"/swap", mergePatch, patch(first.version(), "2"))
	same(t, "Conflict", o, "reason")
	same(t, map[string]any{"a": "1"}, c.get(t, nodes+"/swap"), "metadata", "labels")
}

func patchWithUID(t *testing.T, c client) {
	c.create(t, nodes, node("patched", ""))
	o := c.must(t, 422, "PATCH", nodes+"/patched", mergePatch,
		`{"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "labels": {"a": "b"}}}`)
	same(t, "Invalid", o, "reason")
}

func conditions(t *testing.T, c client) {
	c.create(t, nodes, node("conditions", ""))
	path := nodes + "/conditions/status"
	set := func(patch string) []string {
		var all []string
		for _, o := range object(c.patch(t, path, strategicPatch, patch)["status"].(map[string]any)).items(t, "conditions") {
			all = append(all, fmt.Sprint(o["type"], " ", o["status"], " ", o["reason"]))
		}
		slices.Sort(all)
		return all
	}
	set(`{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "A"}]}}`)
	got := set(`{"status": {"conditions": [{"type": "B", "status": "False"}, {"type": "Ready", "status": "False"}]}}`)
	if diff := cmp.Diff([]string{"B False <nil>", "Ready False A"}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	got = set(`{"status": {"conditions": [{"type": "B", "$patch": "delete"}]}}`)
	if diff := cmp.Diff([]string{"Ready False A"}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func otherPatch(t *testing.T, c client) {
	c.create(t, nodes, node("json", ""))
	o := c.must(t, 415, "PATCH", nodes+"/json", "application/json", `{}`)
	same(t, "UnsupportedMediaType", o, "reason")
}

func statusPart(t *testing.T, c client) {
	c.create(t, nodes, node("part", ""))
	ready := `"status": {"conditions": [{"type": "Ready", "status": "True"}]}`
	o := c.patch(t, nodes+"/part", mergePatch, `{"spec": {"unschedulable": true}, `+ready+`}`)
	same(t, true, o, "spec", "unschedulable")
	same(t, nil, o, "status", "conditions")

	o = c.patch(t, nodes+"/part/status", mergePatch, `{"spec": {"unschedulable": null}, `+ready+`}`)
	same(t, true, o, "spec", "unschedulable")
	if o.at("status", "conditions") == nil {
		t.Errorf("no conditions: %v", o)
	}
	o = c.must(t, 200, "PUT", nodes+"/part", "application/json", node("part", ""))
	if o.at("status", "conditions") == nil {
		t.Errorf("no conditions after an update: %v", o)
	}
}

func deleteUID(t *testing.T, c client) {
	first := c.create(t, nodes, node("deleted", ""))
	body := func(uid any) string { return fmt.Sprintf(`{"preconditions": {"uid": %q}}`, uid) }
	o := c.must(t, 409, "DELETE", nodes+"/deleted", "application/json",
		body("00000000-0000-0000-0000-000000000000"))
	same(t, "Conflict", o, "reason")
	o = c.must(t, 200, "DELETE", nodes+"/deleted", "application/json",
		body(first.at("metadata", "uid")))
	same(t, "Success", o, "status")
	c.must(t, 404, "DELETE", nodes+"/deleted", "application/json", "")
}

func bornAgain(t *testing.T, c client) {
	first := c.create(t, nodes, node("born", ""))
	c.must(t, 200, "DELETE", nodes+"/born", "application/json", "")
	again := c.create(t, nodes, node("born", ""))
	if first.at("metadata", "uid") == again.at("metadata", "uid") {
		t.Errorf("%v", again)
	}
	number := func(o object) int {
		n, err := strconv.Atoi(o.version())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if number(again) <= number(first) {
		t.Errorf("version %s after %s", again.version(), first.version())
	}
}

func lists(t *testing.T, c client) {
	for _, name := range []string{"list-c", "list-a", "list-b"} {
		c.create(t, nodes, node(name, `"lists": "yes", "name": "`+name+`"`))
	}
	for selector, want := range map[string][]string{
		"labelSelector=lists%3Dyes":                                 {"list-a", "list-b", "list-c"},
		"labelSelector=lists":                                       {"list-a", "list-b", "list-c"},
		"labelSelector=lists%3Dyes,name!%3Dlist-b":                  {"list-a", "list-c"},
		"labelSelector=name+in+(list-a,other)":                      {"list-a"},
		"fieldSelector=metadata.name%3Dlist-b":                      {"list-b"},
		"fieldSelector=metadata.name%3Dlist-b&labelSelector=!lists": nil,
		// A name that somebody made up: the characters of a selector in it are escaped.
		"fieldSelector=metadata.name%3Da%5C,metadata.name%5C%3Dlist-b": nil,
	} {
		list := c.get(t, nodes+"?"+selector)
		if diff := cmp.Diff(want, names(list.items(t, "items"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
		same(t, "NodeList", list, "kind")
	}
	c.must(t, 400, "GET", nodes+"?fieldSelector=spec.other%3Da", "application/json", "")
	c.must(t, 400, "GET", nodes+"?labelSelector=%3D%3D", "application/json", "")
}

func pages(t *testing.T, c client) {
	at := strings.Replace(leases, "kube-system", "kube-public", 1)
	for i := range 5 {
		c.create(t, at, lease(fmt.Sprint("page-", i), ""))
	}
	first := c.get(t, at+"?limit=2")
	second := c.get(t, at+"?limit=2&continue="+fmt.Sprint(first.at("metadata", "continue")))
	third := c.get(t, at+"?limit=2&continue="+fmt.Sprint(second.at("metadata", "continue")))
	same(t, 3.0, first, "metadata", "remainingItemCount")
	same(t, 1.0, second, "metadata", "remainingItemCount")
	same(t, nil, third, "metadata", "remainingItemCount")
	same(t, nil, third, "metadata", "continue")
	got := slices.Concat(names(first.items(t, "items")), names(second.items(t, "items")), names(third.items(t, "items")))
	if diff := cmp.Diff([]string{"page-0", "page-1", "page-2", "page-3", "page-4"}, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func metadataList(t *testing.T, c client) {
	c.create(t, nodes, node("partial", `"partial": "yes"`))
	list := c.must(t, 200, "GET", nodes+"?labelSelector=partial", asMetadata, "")
	same(t, "PartialObjectMetadataList", list, "kind")
	same(t, "meta.k8s.io/v1", list, "apiVersion")
	items := list.items(t, "items")
	if len(items) != 1 || items[0]["spec"] != nil || items[0]["status"] != nil {
		t.Fatalf("%v", items)
	}
	same(t, "yes", items[0], "metadata", "labels", "partial")
}

// cells returns the cells of a table in columns.
func cells(t *testing.T, o object, columns ...string) [][]any {
	t.Helper()
	var at []int
	for _, column := range columns {
		at = append(at, slices.IndexFunc(o.items(t, "columnDefinitions"),
			func(c object) bool { return c["name"] == column }))
	}
	var all [][]any
	for _, row := range o.items(t, "rows") {
		var some []any
		for _, i := range at {
			some = append(some, row["cells"].([]any)[i])
		}
		all = append(all, some)
	}
	return all
}

func table(t *testing.T, c client) {
	label := `"table": "yes"`
	for name, patch := range map[string]string{
		"table-ready":   `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`,
		"table-not":     `{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}`,
		"table-silent":  `{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}`,
		"table-unknown": `{"status": {}}`,
	} {
		c.create(t, nodes, node(name, label))
		c.patch(t, nodes+"/"+name+"/status", mergePatch, patch)
	}
	c.patch(t, nodes+"/table-ready", mergePatch, `{"spec": {"unschedulable": true},
		"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}, "annotations": {"a": "b"}}}`)

	o := c.must(t, 200, "GET", nodes+"?labelSelector=table&includeObject=Metadata", asTable, "")
	same(t, "Table", o, "kind")
	want := [][]any{
		{"table-not", "NotReady", "<none>"},
		{"table-ready", "Ready,SchedulingDisabled", "worker"},
		{"table-silent", "NotReady", "<none>"},
		{"table-unknown", "Unknown", "<none>"},
	}
	if diff := cmp.Diff(want, cells(t, o, "Name", "Status", "Roles")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	row := o.items(t, "rows")[1]
	same(t, "PartialObjectMetadata", row, "object", "kind")
	same(t, "b", row, "object", "metadata", "annotations", "a")
	same(t, nil, row, "object", "spec")
}

func tableWithout(t *testing.T, c client) {
	c.create(t, nodes, node("table-none", `"none": "yes"`))
	o := c.must(t, 200, "GET", nodes+"?labelSelector=none&includeObject=None", asTable, "")
	if diff := cmp.Diff([][]any{{"table-none"}}, cells(t, o, "Name")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	same(t, nil, o.items(t, "rows")[0], "object")
}

func watchFrom(t *testing.T, c client) {
	first := c.create(t, leases, lease("watched", "a"))
	second := c.patch(t, leases+"/watched", mergePatch, `{"spec": {"holderIdentity": "b"}}`)
	path := leases + "?watch=1&fieldSelector=metadata.name%3Dwatched&resourceVersion=" + first.version()
	next := c.watch(t, path)
	e := expect(t, next, "MODIFIED watched")
	if e.object.version() != second.version() {
		t.Errorf("version %s, want %s", e.object.version(), second.version())
	}
	c.create(t, leases, lease("watched-not", "a"))
	c.must(t, 200, "DELETE", leases+"/watched", "application/json", "")
	e = expect(t, next, "DELETED watched")
	same(t, "b", e.object, "spec", "holderIdentity")
	if e.object.version() == second.version() {
		t.Errorf("version %s of a deleted object", e.object.version())
	}
	c.create(t, leases, lease("watched", "c"))
	expect(t, next, "ADDED watched")
}

func watchAll(t *testing.T, c client) {
	for _, name := range []string{"all-b", "all-a"} {
		c.create(t, nodes, node(name, `"all": "yes"`))
	}
	next := c.watch(t, nodes+"?watch=1&labelSelector=all")
	e := expect(t, next, "ADDED all-a", "ADDED all-b")
	same(t, "Node", e.object, "kind")
	c.patch(t, nodes+"/all-a", mergePatch, `{"metadata": {"labels": {"x": "y"}}}`)
	expect(t, next, "MODIFIED all-a")
}

func watchList(t *testing.T, c client) {
	c.create(t, nodes, node("streamed", `"streamed": "yes"`))
	next := c.watch(t, nodes+"?watch=1&labelSelector=streamed&sendInitialEvents=true"+
		"&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	e := expect(t, next, "ADDED streamed", "BOOKMARK <nil>")
	same(t, "true", e.object, "metadata", "annotations", "k8s.io/initial-events-end")
	if e.object.version() == "<nil>" {
		t.Errorf("a bookmark without a version: %v", e.object)
	}
	c.must(t, 200, "DELETE", nodes+"/streamed", "application/json", "")
	expect(t, next, "DELETED streamed")
}

func watchLabel(t *testing.T, c client) {
	first := c.create(t, nodes, node("comes", ""))
	next := c.watch(t, nodes+"?watch=1&labelSelector=comes%3Dyes&resourceVersion="+first.version())
	label := func(value string) {
		c.patch(t, nodes+"/comes", mergePatch, `{"metadata": {"labels": {"comes": `+value+`}}}`)
	}
	label(`"yes"`)
	label(`"no"`)
	label(`"yes"`)
	c.must(t, 200, "DELETE", nodes+"/comes", "application/json", "")
	expect(t, next, "ADDED comes", "DELETED comes", "ADDED comes", "DELETED comes")
}

func watchOld(t *testing.T, c client) {
	first := c.create(t, leases, lease("forgotten", "a"))
	c.patch(t, leases+"/forgotten", mergePatch, `{"spec": {"holderIdentity": "b"}}`)
	c.forget(t)
	e := c.watch(t, leases+"?watch=1&resourceVersion="+first.version())()
	if e.kind != "ERROR" {
		t.Fatalf("%+v", e)
	}
	same(t, 410.0, e.object, "code")
	same(t, "Expired", e.object, "reason")
}

func watchEnds(t *testing.T, c client) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		c.url+leases+"?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dends", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); err != nil || len(text) > 0 {
		t.Errorf("%q: %v", text, err)
	}
}

func pod(name, label string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {"app": %q}}, "spec": {
		"nodeName": %q, "containers": [{"name": "a", "image": "a"}]}}`, name, label, label)
}

// run makes a pod ready.
func (c client) run(t *testing.T, name string) {
	t.Helper()
	c.patch(t, pods+"/"+name+"/status", strategicPatch,
		`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)
}

func eviction(name, uid string) string {
	options := ""
	if uid != "" {
		options = fmt.Sprintf(`, "deleteOptions": {"preconditions": {"uid": %q}}`, uid)
	}
	return fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q}%s}`,
		name, options)
}

func budget(t *testing.T, c client) {
	for _, name := range []string{"kept-1", "kept-2"} {
		c.create(t, pods, pod(name, "kept"))
		c.run(t, name)
	}
	c.create(t, budgets, `{"metadata": {"name": "kept"},
		"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}}`)
	status := func(allowed int) {
		o := c.get(t, budgets+"/kept")
		c.patch(t, budgets+"/kept/status", mergePatch, fmt.Sprintf(`{"status": {
			"observedGeneration": %v, "disruptionsAllowed": %d, "currentHealthy": %d,
			"desiredHealthy": 1, "expectedPods": 2}}`, o.at("metadata", "generation"), allowed, 1+allowed))
	}

	status(0)
	evict := func(name string, code int) object {
		t.Helper()
		return c.must(t, code, "POST", pods+"/"+name+"/eviction", "application/json", eviction(name, ""))
	}
	o := evict("kept-1", 429)
	same(t, "TooManyRequests", o, "reason")
	causes, _ := o.at("details", "causes").([]any)
	if len(causes) != 1 {
		t.Fatalf("causes %v", o)
	}
	same(t, "DisruptionBudget", causes[0].(map[string]any), "reason")
	same(t, "The disruption budget kept needs 1 healthy pods and has 1 currently",
		causes[0].(map[string]any), "message")

	status(1)
	evict("kept-1", 201)
	evict("kept-2", 429)
}

func evictions(t *testing.T, c client) {
	o := c.must(t, 404, "POST", pods+"/nowhere/eviction", "application/json", eviction("nowhere", ""))
	same(t, "NotFound", o, "reason")
	created := c.create(t, pods, pod("evicted", ""))
	o = c.must(t, 409, "POST", pods+"/evicted/eviction", "application/json",
		eviction("evicted", "00000000-0000-0000-0000-000000000000"))
	same(t, "Conflict", o, "reason")
	uid := created.at("metadata", "uid").(string)
	o = c.must(t, 201, "POST", pods+"/evicted/eviction", "application/json", eviction("evicted", uid))
	same(t, "Success", o, "status")
	c.must(t, 404, "GET", pods+"/evicted", "application/json", "") // It was on no node.
}

func grace(t *testing.T, c client) {
	c.create(t, pods, pod("graceful", "grace-node"))
	c.run(t, "graceful")
	c.must(t, 201, "POST", pods+"/graceful/eviction", "application/json", eviction("graceful", ""))
	o := c.get(t, pods+"/graceful")
	same(t, 30.0, o, "metadata", "deletionGracePeriodSeconds")
	if o.at("metadata", "deletionTimestamp") == nil {
		t.Errorf("no time: %v", o)
	}
	c.must(t, 200, "DELETE", pods+"/graceful?gracePeriodSeconds=0", "application/json", "")
	c.must(t, 404, "GET", pods+"/graceful", "application/json", "")
}

func podsOfNode(t *testing.T, c client) {
	for _, name := range []string{"of-a", "of-b"} {
		c.create(t, pods, pod(name, name+"-node"))
	}
	list := c.get(t, "/api/v1/pods?fieldSelector=spec.nodeName%3Dof-b-node")
	if diff := cmp.Diff([]string{"of-b"}, names(list.items(t, "items"))); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func secretTexts(t *testing.T, c client) {
	o := c.create(t, secrets, `{"metadata": {"name": "texts"}, "stringData": {"a": "text"}}`)
	same(t, map[string]any{"a": "dGV4dA=="}, o, "data")
	same(t, "Opaque", o, "type")
	same(t, nil, o, "stringData")
}

func eventCreated(t *testing.T, c client) {
	body := `{"metadata": {"name": "e.1"}, "involvedObject": {"kind": "Node", "name": "a"},
		"type": "Normal", "reason": "A", "source": {"component": "a"}}`
	o := c.create(t, events, body)
	same(t, "default", o, "metadata", "namespace")
	list := c.get(t, events+"?fieldSelector=involvedObject.name%3Da,reason%3DA")
	if diff := cmp.Diff([]string{"e.1"}, names(list.items(t, "items"))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
