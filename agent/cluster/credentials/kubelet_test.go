package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
)

// Interrupts PrepareRejoin after each of its steps and runs it again: the
// kubelet never loses the credentials to join with.
func TestInterruptedRejoinCanBeRepeated(t *testing.T) {
	for cut := 0; ; cut++ {
		dir := t.TempDir()
		pki := filepath.Join(dir, kubeletPKI)
		if err := os.MkdirAll(pki, 0o755); err != nil {
			t.Fatal(err)
		}

		for name, text := range map[string]string{
			"kubelet-client-1.pem": "KEY AND CERTIFICATE",
			"../kubeconfig-real":   "kind: Config",
		} {
			if err := os.WriteFile(filepath.Join(pki, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		err := os.Symlink("/"+kubeletPKI+"/kubelet-client-1.pem",
			filepath.Join(dir, kubeletCurrent))
		if err != nil {
			t.Fatal(err)
		}

		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}

		steps := 0
		c := Target{Server: "https://new", CA: []byte("CA")}
		first := Store{durable.New(root, func(durable.Step) error {
			steps++
			if steps > cut {
				return os.ErrDeadlineExceeded
			}
			return nil
		})}.PrepareRejoin(c)

		if err := (Store{durable.New(root, nil)}).PrepareRejoin(c); err != nil {
			t.Fatalf("after %d steps: %v", cut, err)
		}

		text, err := os.ReadFile(filepath.Join(dir, kubeletBootstrap))
		if err != nil || !strings.Contains(string(text), "https://new") ||
			!strings.Contains(string(text), "S0VZIEFORCBDRVJUSUZJQ0FURQ==") {
			t.Fatalf("after %d steps it joins with %s, %v", cut, text, err)
		}

		for _, name := range []string{kubeletReal, kubeletPKI} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Fatalf("after %d steps there is still %s", cut, name)
			}
		}

		// As the kubelet leaves it while it waits for its certificate.
		files.Write(t, filepath.Join(dir, kubeletReal), "kind: Config")
		if err := Open(root).PrepareRejoin(c); err != nil {
			t.Fatalf("once more: %v", err)
		}

		if again, err := os.ReadFile(filepath.Join(dir, kubeletBootstrap)); err != nil ||
			string(again) != string(text) {
			t.Fatalf("once more it joins with %s, %v", again, err)
		}

		if err := root.Close(); err != nil {
			t.Fatal(err)
		}

		if first == nil {
			if cut < 5 {
				t.Fatalf("%d steps: it was never cut", cut)
			}
			return
		}
	}
}
