package machine

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint/fault"
)

const secrets = `# of the plant
proxy:
  url: http://ada:s3cret:w@rd@192.0.2.1:3128 # was http://bob:0ld@192.0.2.9
source:
  cluster:
    server: https://192.0.2.2
    bootstrapToken: "abcdef.0123456789abcdef"
upgrade:
  mirrors: ["https://192.0.2.3/updates", "https://c:mirr0r@192.0.2.3/updates"]
files:
  - path: /a/key
    content: |
      -----BEGIN
      private
  - {path: /a/b, mode: 0640, base64: c2VjcmV0}
  - {path: /a/c, mode: 0o644, content: for all}
`

const redacted = `# of the plant
proxy:
  url: http://ada:xxxxx@192.0.2.1:3128 # was http://bob:xxxxx@192.0.2.9
source:
  cluster:
    server: https://192.0.2.2
    bootstrapToken: "abcdef.xxxxx"
upgrade:
  mirrors: ["https://192.0.2.3/updates", "https://c:xxxxx@192.0.2.3/updates"]
files:
  - path: /a/key
    content: xxxxx
  - {path: /a/b, mode: 0640, base64: xxxxx}
  - {path: /a/c, mode: 0o644, content: for all}
`

func TestRedact(t *testing.T) {
	signed, err := trust.Sign([]byte(secrets), 7, ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}

	const harmless = "kind:   Machine # as it is\nhostname: a"
	for _, row := range []struct{ name, text, want string }{
		{"without secrets it stays as it is", harmless, harmless},
		{"with secrets", secrets, redacted},
		{"signed", string(signed), redacted},
		{"empty", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			have, err := Redact([]byte(row.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, have); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
}

func TestUnreadableDocumentsAreNotShown(t *testing.T) {
	for _, text := range []string{
		"proxy: {url: http://ada:s3cret@192.0.2.1\n",
		"files:\n  - path: /a\n    content: a\n    content: s3cret\n",
		"files:\n  - path: /a\n    mode: 0644\n    mode: 0600\n    content: s3cret\n",
		"x: &x {path: /a}\nfiles:\n  - <<: *x\n    content: s3cret\n",
		"hostname: a\n---\nproxy: {url: http://ada:s3cret@192.0.2.1}\n",
	} {
		have, err := Redact([]byte(text))
		if have != "" || fault.Of(err) != fault.DocumentInvalid || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %q, %v", text, have, err)
		}
	}
}

func TestAMistakeHasItsSecretsTakenOut(t *testing.T) {
	for _, text := range []string{
		"source: {cluster: {bootstrapToken: s3cret}}\n",
		"source: {cluster: {bootstrapToken: ABCDEF.s3cret}}\n",
		"files:\n  - path: /a\n    Content: s3cret\n",
		"proxy: {url: http://ada:/s3cret@192.0.2.1:3128}\n",
		"# http://ada:a/s3cret#1@192.0.2.1\nhostname: a\n",
	} {
		have, err := Redact([]byte(text))
		if err != nil || !strings.Contains(have, mask) || strings.Contains(have, "s3cret") {
			t.Errorf("%q: %q, %v", text, have, err)
		}
	}
}

// The error of a document is in the status, in the log and on the consoles.
func TestAMistakeShowsNoSecret(t *testing.T) {
	const head = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"
	for _, text := range []string{
		"proxy: http://u:s3cret@h:3128",
		"proxy: {http://u:s3cret@h:3128}",
		"proxy:\n  http://u:s3cret@h:3128:",
		"proxy: {url: [http://u:s3cret@h:3128]}",
		"proxy: {url: {http://u:s3cret@h:3128: }}",
		"proxy: {url: 'http://u:s3%cret@h:3128'}",
		"proxy: {noProxy: ['http://u:1/s3cret@h']}",
		"proxy: {noProxy: ['u:s3cret@h']}",
		"proxy: {url: 'u:s3cret@h:3128'}",
		"source: {cluster: {bootstrapToken: [abcdef.s3crets3crets3cr]}}",
		"source: {cluster: {abcdef.s3crets3crets3cr: }}",
		"source: {cluster: {bootstrapToken: abcdef.s3cret}}",
		"source: {cluster: {bootstraptoken: abcdef.s3cret}}",
		"source: {cluster: {bootstrap: abcdef.s3cret}}",
		"source: {cluster: {secret: abcdef.s3crets3crets3cr}}",
		"files: [{path: /x, content: [s3cret]}]",
		"files: [{path: /x, base64: s3cret!}]",
		"files: [{path: /x, content: {s3cret: }}]",
		"upgrade: {mirrors: ['ftp://u:s3cret@h']}",
		"upgrade: {mirrors: ['ftp://u:1/s3cret@h']}",
		"upgrade: {mirrors: 'http://u:s3cret@h'}",
		"upgrade: {turns: {fleetlock: 'ftp://u:1/s3cret@h'}}",
		"upgrade: {turns: 'http://u:s3cret@h'}",
		"upgrade: {turns: {http://u:s3cret@h}}",
		"trust: {keys: [s3cret]}",
		"x: &x http://u:s3cret@h\nproxy: {url: *x, url: *x}",
		"proxy: {url: http://u:s3cret@h:3128",
		"proxy:\n  url: http://u:s3cret@h:3128\n bad",
		"proxy:\n  url: http://u:s3cret@h: 3128",
		"proxy:\n  url: \"http://u:s3cret\\q@h:3128\"",
		"proxy:\n  url: *http://u:s3cret@h:3128",
		"proxy:\n  url: !!int http://u:s3cret@h:3128",
	} {
		_, err := Decode("machine.yaml", []byte(head+text+"\n"))
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "cret@") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
