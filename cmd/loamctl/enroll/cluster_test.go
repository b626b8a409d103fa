package enroll

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/test/cluster"
)

// TestCluster has a real API server take a token that was made in it.
func TestCluster(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(c.Admin(t)), 0o600); err != nil {
		t.Fatal(err)
	}

	server, err := kubeconfig.Open([]string{file}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	source := Cluster{Server: server, For: time.Hour, Group: cluster.AgentGroup}

	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	r, err := Open(root, source, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	token, err := r.Token(t.Context(), "", one)
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Publish(t.Context(), token, r.grants[0].Expires); err != nil {
		t.Errorf("a second time, as after a cut: %v", err)
	}

	const review = `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`
	var answer []byte
	for end := time.Now().Add(time.Minute); ; { // the API server learns of it by a watch
		answer, err = c.DoAs(token, http.MethodPost,
			"/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
		var status *cluster.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusUnauthorized ||
			time.Now().After(end) {
			break
		}
	}
	if err != nil || !strings.Contains(string(answer), "system:bootstrap:"+token[:6]) ||
		!strings.Contains(string(answer), cluster.AgentGroup) {
		t.Errorf("%s, %v", answer, err)
	}
}

// The rows are of the tests of Kubernetes' own check (k8s.io/cluster-bootstrap,
// token/util).
func TestGroupsThatAnAPIServerAccepts(t *testing.T) {
	for _, row := range []struct {
		name, group string
		want        bool
	}{
		{"one word", "system:bootstrappers:foo", true},
		{"several words", "system:bootstrappers:foo:bar:baz", true},
		{"dashes and a number", "system:bootstrappers:foo-bar-42", true},
		{"the longest", "system:bootstrappers:" + strings.Repeat("x", 256), true},
		{"too long", "system:bootstrappers:" + strings.Repeat("x", 257), false},
		{"a capital letter", "system:bootstrappers:Foo", false},
		{"an underscore", "system:bootstrappers:foo_1", false},
		{"another prefix", "foo", false},
		{"the group of all tokens", "system:bootstrappers", false},
		{"the prefix alone", "system:bootstrappers:", false},
		{"a space", "system:bootstrappers: ", false},
		{"a colon at the end", "system:bootstrappers:foo:", false},
		{"a dash at the end", "system:bootstrappers:foo-", false},
		{"a line feed at the end", "system:bootstrappers:foo\n", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if IsGroup(row.group) != row.want {
				t.Errorf("IsGroup(%q) is %t", row.group, !row.want)
			}
		})
	}
}
