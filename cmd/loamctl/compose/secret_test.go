package compose_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestDocumentInASecret reads the Secret of a node as kubectl prints it.
func TestDocumentInASecret(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: pool}\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(head + "spec: {unit: []}\n"))

	for _, tt := range []struct{ name, text, want string }{
		{"as the API server has it", secret + "data: {osc.yaml: " + encoded + "}\n",
			"DIR[osc.yaml]:3: spec.unit: unknown field"},
		{"as people write it", secret + "stringData: {osc.yaml: 'kind: Pod'}\n",
			"DIR[osc.yaml]:1: kind: "},
		{"another Secret", secret + "data: {tls.key: aGVsbG8=, tls.crt: aGVsbG8=}\n",
			"a Secret without the key osc.yaml"},
		{"another Secret's keys", secret + "data: {tls.key: aGVsbG8=, tls.crt: aGVsbG8=}\n",
			"this one has tls.crt, tls.key"},
		{"an empty Secret", secret, "this one has no data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := lay(t, txtar.File{Name: "secret.yaml", Data: []byte(tt.text)})
			if got := said(dir + "/secret.yaml"); !strings.Contains(got, tt.want) {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
		})
	}
}
