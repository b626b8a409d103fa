package fleet

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/test/files"
)

// TestASecretOfOneHostHoldsNobodyUp: a file of one node has its content from a Secret.
// The pool goes on to its configuration, and that node to new content in turns of its
// own, also once all have changed.
func TestASecretOfOneHostHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "node-1"
		o := fifty()
		o.Nodes = 4
		withSecret := func(text string) string {
			return strings.Replace(Configuration(text), "[/etc/a]", "[/etc/a, /etc/b]", 1) + `  - path: /etc/b
    hostName: ` + host + `
    content: {secretRef: {name: of-host, dataKey: key}}
`
		}
		f := New(t, o, Configuration("one"))
		secret := func(method, path, value string) {
			f.Do(method, secretsPath+path, fmt.Sprintf(`{"metadata": {"name": "of-host"}, "data": {"key": "%s"}}`,
				base64.StdEncoding.EncodeToString([]byte(value))))
		}
		has := func(value string) error {
			for _, m := range f.members {
				want := ""
				if m.name == host {
					want = value
				}
				name, err := files.Follow(m.dir, "etc/b")
				if err != nil {
					name = "no file"
				}
				text, _ := os.ReadFile(filepath.Join(m.dir, name))
				if string(text) != want {
					return fmt.Errorf("%s has %q", m.name, text)
				}
			}
			return nil
		}

		secret(http.MethodPost, "", "A")
		f.Configure(withSecret("two"))
		f.Await("the rollout", time.Hour, func() error {
			return errors.Join(f.runs(withSecret("two")), has("A"), f.settled())
		})

		secret(http.MethodPut, "/of-host", "B")
		f.Await("another value of the host", time.Hour, func() error {
			return errors.Join(has("B"), f.settled())
		})

		f.Configure(withSecret("three"))
		f.Await("another rollout", time.Hour, func() error {
			return errors.Join(f.runs(withSecret("three")), has("B"), f.settled())
		})
	})
}
