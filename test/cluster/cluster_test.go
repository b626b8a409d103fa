package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAPIServerComesBackWithItsData(t *testing.T) {
	started := time.Now()
	c := Start(t, Options{})
	t.Logf("ready after %s", time.Since(started))
	const secrets = "/api/v1/namespaces/default/secrets"
	c.mustDo(t, http.MethodPost, secrets,
		`{"metadata": {"name": "kept"}, "stringData": {"word": "loam"}}`)

	c.StopAPI(t)

	if _, err := c.Do(http.MethodGet, secrets+"/kept", ""); err == nil {
		t.Error("a stopped API server answers")
	}

	started = time.Now()
	c.StartAPI(t)
	t.Logf("back after %s", time.Since(started))
	var secret struct{ Data map[string][]byte }
	get(t, c, secrets+"/kept", &secret)

	if string(secret.Data["word"]) != "loam" {
		t.Errorf("the Secret after the restart: %v", secret)
	}
}

func TestBootstrapTokensHaveFewRights(t *testing.T) {
	c := Start(t, Options{Bind: "::1"})
	token := c.BootstrapToken(t)
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	for _, row := range []struct {
		name, token, path string
		code              int
	}{
		{
			name:  "a bootstrap token may see requests for certificates",
			token: token,
			path:  requests + "/none",
			code:  http.StatusNotFound,
		},
		{
			name:  "a bootstrap token may not see Secrets",
			token: token,
			path:  "/api/v1/secrets",
			code:  http.StatusForbidden,
		},
		{
			name:  "a made-up token belongs to no user",
			token: "abcdef.0123456789abcdef",
			path:  "/version",
			code:  http.StatusUnauthorized,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := c.DoAs(row.token, http.MethodGet, row.path, "")
			var status *StatusError
			if !errors.As(err, &status) || status.Code != row.code {
				t.Errorf("answer %v, want %d", err, row.code)
			}
		})
	}

	t.Run("the groups of a bootstrap token", func(t *testing.T) {
		const review = `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`
		answer, err := c.DoAs(token, http.MethodPost,
			"/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range []string{`"system:bootstrappers"`, `"` + AgentGroup + `"`} {
			if !strings.Contains(string(answer), group) {
				t.Errorf("no group %s: %s", group, answer)
			}
		}
	})
}

func (c *Cluster) mustDo(t testing.TB, method, path, body string) {
	t.Helper()
	if _, err := c.Do(method, path, body); err != nil {
		t.Fatal(err)
	}
}

// mustAwait waits until right returns nil.
func (c *Cluster) mustAwait(t testing.TB, right func() error) {
	t.Helper()
	if err := c.await(t.Context(), c.api, right); err != nil {
		t.Fatal(err)
	}
}

// get decodes what the API server has at path.
func get(t *testing.T, c *Cluster, path string, into any) {
	t.Helper()
	answer, err := c.Do(http.MethodGet, path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
