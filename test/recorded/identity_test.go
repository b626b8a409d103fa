package recorded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/cluster"
)

// A kubeconfig that is corrupt or that an operator mixed up counts as absent.
func TestACertificateOfAnotherKeyIsReplacedByTheToken(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.stop()
	name := filepath.Join(w.node.Dir, credentialsDir, "kubeconfig")
	mine, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}

	const key = `client-key-data: .*`
	others := regexp.MustCompile(key).FindString(w.Kubeconfig(t, "another"))
	w.write(credentialsDir+"/kubeconfig",
		string(regexp.MustCompile(key).ReplaceAll(mine, []byte(others))))
	w.write(credentialsDir+"/bootstrap-token", w.BootstrapToken(t))
	w.startAgain()
	w.approve()
	w.becomes(osc("two"))
}

func TestABootstrapTokenThatCannotBeReadKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.stop()

	err := os.MkdirAll(filepath.Join(w.node.Dir, credentialsDir, "bootstrap-token"), 0o755)
	if err != nil {
		t.Fatal(err)
	}

	w.startAgain()
	w.becomes(osc("two"))
}

func TestATokenThatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.poke()

	dir := filepath.Join(w.node.Dir, filepath.Dir(tokenFile))
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}

	w.put("token", map[string]string{"token": "rotated"})
	w.await("the event", func() error {
		text, err := w.Do("GET", "/api/v1/events?fieldSelector=reason%3DTokenSync", "")
		if err == nil && !strings.Contains(string(text),
			"sync the token of Secret token to /"+tokenFile+": make directory var/lib/thing: "+
				"a file is in the way") {
			err = fmt.Errorf("%s", text)
		}
		return err
	})

	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}

	w.becomes(osc("two")) // The Secret says nothing new.
	w.file(tokenFile, "rotated")
}

// A token's Secret that the configuration refers to, too, is watched for both.
func TestASecretIsATokensAndTheConfigurations(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.put("token", map[string]string{"token": "first"})
	both := osc("one") + strings.NewReplacer("name: ca", "name: token", "bundle.crt",
		"token").Replace(referring)
	w.join(both)
	w.file("etc/ca", "first")
	w.poke()
	w.file("etc/ca", "token 1")
	w.becomes(osc("one"))
	w.poke()
	w.becomes(both)
	w.file("etc/ca", "token 2")
}

// TestPoolsDoNotReadEachOthersSecrets asks the API server what
// examples/cluster/rbac.yaml comes to. What is allowed is so a moment after it is created.
func TestPoolsDoNotReadEachOthersSecrets(t *testing.T) {
	t.Parallel()
	w := newFixtureIn(t, cluster.Start(t, cluster.Options{})) // Nobody had rights in it before.

	for _, tt := range []struct {
		name, machine, verb, resource, object string
		want                                  bool
	}{
		{"a machine, its configuration", "machine-1", "get", "secrets", secretName, true},
		{"a machine, all Secrets", "machine-1", "list", "secrets", "", false},
		{"a machine named as its Node", "node-1", "watch", "secrets", secretName, true},
		{
			"a machine, its Lease",
			"machine-1",
			"update",
			"leases.coordination.k8s.io",
			"gardener-node-agent-node-1",
			true,
		},
		{
			"a machine of another pool, the configuration",
			"other-1",
			"get",
			"secrets",
			secretName,
			false,
		},
		{"a machine of another pool, a token", "other-1", "watch", "secrets", "token", false},
		{
			"a machine of another pool, the turns",
			"other-1",
			"update",
			"leases.coordination.k8s.io",
			secretName,
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := func() error {
				return w.isAllowed(tt.want, tt.machine, tt.verb, tt.resource, tt.object)
			}
			if tt.want {
				w.await("the right", answer)
			} else if err := answer(); err != nil {
				t.Error(err)
			}
		})
	}
}

// isAllowed returns an error if the API server says otherwise of a machine's right.
func (w *fixture) isAllowed(want bool, machine, verb, resource, object string) error {
	w.Helper()
	resource, group, _ := strings.Cut(resource, ".")
	answer := w.must("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", fmt.Sprintf(
		`{"spec": {"user": "gardener.cloud:node-agent:machine:%s", "groups": [%q, "system:authenticated"],
		"resourceAttributes": {"namespace": "kube-system", "verb": %q, "group": %q, "resource": %q, "name": %q}}}`,
		machine, agentGroup, verb, group, resource, object))
	if got := answer["status"].(map[string]any)["allowed"]; got != want {
		return fmt.Errorf("%v", answer["status"])
	}
	return nil
}
