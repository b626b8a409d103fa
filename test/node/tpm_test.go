package node

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheNumberInATPM has the agent's code raise it, through the image's
// kernel.
func TestTheNumberInATPM(t *testing.T) {
	b := open(t)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "raise"), "./testdata/raise")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+b.manifest.Arch)

	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	m := b.flash(t, b.file(".raw"))
	m.config.Host = true

	m.config.TPM = filepath.Join(m.config.Dir, "tpm")
	if err := os.Mkdir(m.config.TPM, 0o700); err != nil {
		t.Fatal(err)
	}

	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, "")})
	n.shell()
	n.sh("curl -sSf --retry 60 --retry-delay 1 --retry-all-errors -o /tmp/raise http://10.0.2.2:" +
		port + "/raise && chmod +x /tmp/raise")
	n.want("/tmp/raise 5; /tmp/raise 2", "5\n5")
}
