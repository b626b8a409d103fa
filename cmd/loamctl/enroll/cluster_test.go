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
