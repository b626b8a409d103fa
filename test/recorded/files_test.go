package recorded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/agent/status"
)

const (
	tokenFile = "var/lib/thing/token"
	// referring is more of a configuration: a file that is a Secret's.
	referring = "  - path: /etc/ca\n    content: {secretRef: {name: ca, dataKey: bundle.crt}}\n"
)

// osc is a configuration with one unit and one file that says text.
func osc(text string) string {
	return "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n" +
		"  units:\n  - name: a.service\n    content: |\n      [Service]\n" +
		"      ExecStart=sleep infinity\n" +
		"      [Install]\n      WantedBy=multi-user.target\n    filePaths: [/etc/a]\n  files:\n" +
		"  - path: /etc/a\n    content: {inline: {data: " + text + "}}\n"
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// onNode is where a file of the node is in this machine's tree: what links lead
// to on a node, the test reads past them.
func (w *fixture) onNode(name string) string {
	if strings.HasPrefix(name, "etc/") {
		name = filepath.Join("var/lib/loam/os/1.0.0/current/root", name)
	}
	return filepath.Join(w.node.Dir, name)
}

// file waits until a file of the node says text.
func (w *fixture) file(name, text string) {
	w.Helper()
	w.await(name, func() error {
		have, err := os.ReadFile(w.onNode(name))
		if err == nil && string(have) != text {
			err = fmt.Errorf("says %q, not %q", have, text)
		}
		return err
	})
}

// still makes sure that a file of the node says text now.
func (w *fixture) still(name, text string) {
	w.Helper()
	if have, err := os.ReadFile(w.onNode(name)); err != nil || string(have) != text {
		w.Errorf("%s says %q, not %q: %v", name, have, text, err)
	}
}

// absent makes sure that the node does not have a file.
func (w *fixture) absent(name string) {
	w.Helper()
	for _, name := range []string{w.onNode(name), filepath.Join(w.node.Dir, name)} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			w.Errorf("%s is there: %v", name, err)
		}
	}
}

// write puts a file on the node.
func (w *fixture) write(name, text string) {
	w.Helper()
	w.writeIn(w.node.Dir, name, text)
}

// writeIn writes a file of the node with that directory.
func (w *fixture) writeIn(dir, name, text string) {
	w.Helper()
	name = filepath.Join(dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o600))
	if err != nil {
		w.Fatal(err)
	}
}

// status is what the node says of itself.
func (w *fixture) status() (status.Status, error) {
	return statusOf(w.node.Dir)
}

// statusOf is what the node with that directory says of itself.
func statusOf(dir string) (status.Status, error) {
	text, err := os.ReadFile(filepath.Join(dir, status.Path))
	if err != nil {
		return status.Status{}, err
	}
	return status.Parse(text)
}

// generation is the number of the node's: how often it has applied something.
func (w *fixture) generation() int {
	w.Helper()
	var number int
	target, err := os.Readlink(filepath.Join(w.node.Dir, "var/lib/loam/os/1.0.0/current"))
	if err == nil {
		_, err = fmt.Sscanf(filepath.Base(target), "%06d-", &number)
	}

	if err != nil {
		w.Fatal(err)
	}

	return number
}
