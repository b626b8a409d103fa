package machine_test

import (
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/test/keys"
)

// TestJoined has nothing left of the token and the files, whatever form the document has.
func TestJoined(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	ca := pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: keys.New(t, "ca").Certificate.Raw,
	})
	head := "apiVersion: loam.dev/v1alpha1\nkind: Machine\n# by hand\nhostname: node-1\n"
	source := fmt.Sprintf("{cluster: {server: 'https://a', ca: %q, secret: s, bootstrapToken: %s}}",
		ca, token)
	files := "files: [{path: /var/lib/gardener-node-agent/machine-name, content: a}]\n"
	for name, test := range map[string]struct{ text, want string }{
		"a token": {head + "source: " + source + "\n", head + "source:"},
		"JSON": {
			fmt.Sprintf(`{"apiVersion": "loam.dev/v1alpha1", "kind": "Machine", "source": {"cluster": `+
				`{"server": "https://a", "ca": %q, "secret": "s", "bootstrapToken": %q}}}`, ca, token),
			`{"apiVersion": "loam.dev/v1alpha1"`,
		},
		"files": {head + "source: {nodeAgent: {}}\n" + files, head + "source: {nodeAgent: {}}\n"},
		"a token that a comment has, too": {
			head + "# kubeadm join --token " + token + "\nsource: " + source + "\n",
			head + "# kubeadm join --token \nsource:",
		},
		"a comment of the token": {
			head + "source:\n  cluster:\n    server: https://a\n    secret: s\n    # was " + token +
				"\n    bootstrapToken: " + token + " # " + token + "\n    # also " + token +
				fmt.Sprintf("\n    ca: %q\n", ca),
			head + "source:\n  cluster:\n    server: https://a\n",
		},
		"neither": {
			head + "source:   {file: {path: /srv/a}}\n",
			head + "source:   {file: {path: /srv/a}}\n",
		},
		"wrong": {head + "hostnam: a\n", head + "hostnam: a\n"},
	} {
		got := string(machine.Joined("machine.yaml", []byte(test.text)))
		if !strings.HasPrefix(got, test.want) || strings.Contains(got, token) ||
			strings.Contains(got, "machine-name") {
			t.Errorf("%s:\n%s", name, got)
		}
		if again := string(machine.Joined("machine.yaml", []byte(got))); again != got {
			t.Errorf("%s, again:\n%s", name, again)
		}
	}

	// What refers to a file keeps its value.
	anchor := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nsource: {nodeAgent: {}}\nfiles:\n" +
		"- {path: /var/lib/gardener-node-agent/machine-name, content: &a node-1}\n" +
		"- {path: /var/lib/gardener-node-agent/credentials/bootstrap-token, content: " + token + "}\n" +
		"hostname: *a\n"
	want := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nsource: {nodeAgent: {}}\nhostname: node-1\n"
	if got := string(machine.Joined("machine.yaml", []byte(anchor))); got != want {
		t.Errorf("what refers to a file:\n%s", got)
	}
}
