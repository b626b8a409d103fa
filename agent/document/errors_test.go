package document_test

import (
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/document"
)

func TestQuoteLeavesOutPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"a":                                          `"a"`,
		"http://node:secret@proxy:3128":              `"http://…@proxy:3128"`,
		"http://node:secr/et@proxy:3128":             `"http://…@proxy:3128"`,
		"a=https://secret@b c":                       `"a=https://…@b c"`,
		"oci://registry/image@sha256:0":              `"oci://registry/image@sha256:0"`,
		"http://node:1/secret@proxy:3128":            `"http://…@proxy:3128"`,
		"node:secret@proxy:3128":                     `"…@proxy:3128"`,
		"node:secr/et@proxy":                         `"…@proxy"`,
		"registry:5000/image:v1@sha256:0a":           `"registry:5000/image:v1@sha256:0a"`,
		"abcdef.0123456789abcdef":                    `"abcdef.xxxxx"`,
		strings.Repeat("a", 61):                      `"` + strings.Repeat("a", 60) + `"…`,
		"http://" + strings.Repeat("s", 70):          `"http://` + strings.Repeat("s", 53) + `"…`,
		"http://u:" + strings.Repeat("s", 70) + "@a": `"http://…@a"`,
	} {
		if got := document.Quote(text); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
