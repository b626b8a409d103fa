package identity

import (
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/keys"
)

func TestABootstrapTokenIsTakenOut(t *testing.T) {
	const (
		token = "abcdef.0123456789abcdef"
		head  = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n# joined by TOKEN\n"
	)
	ca := pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: keys.New(t, "ca").Certificate.Raw,
	})
	cluster := func(rest string) string {
		return head + fmt.Sprintf("source: {cluster: {server: 'https://a', ca: %q, secret: s%s}}\n",
			ca, rest)
	}

	for name, test := range map[string]struct {
		text string
		ok   bool
	}{
		"in single quotes": {cluster(", bootstrapToken: 'TOKEN'"), true},
		"in double quotes": {cluster(", bootstrapToken: \"TOKEN\""), true},
		"without quotes":   {cluster(", bootstrapToken: TOKEN"), true},
		"without a token":  {cluster(""), false},
		"no cluster":       {head, false},
		"wrong":            {cluster(", bootstrapToken: [TOKEN]"), false},
		"the token is another field, too": {
			cluster(", bootstrapToken: TOKEN, machine: TOKEN"), false,
		},
	} {
		text := []byte(strings.ReplaceAll(test.text, "TOKEN", token))
		got, ok := withoutToken("machine.yaml", text)
		if ok != test.ok || strings.Contains(string(got), token) {
			t.Errorf("%s: %t\n%s", name, ok, got)
		}
		if _, again := withoutToken("machine.yaml", got); again {
			t.Errorf("%s: there is still a token", name)
		}
	}
}
