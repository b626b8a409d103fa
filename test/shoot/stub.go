package shoot

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/test/program"
)

// Stub builds the program that replaces programs of a document which a test
// does not have, for a processor as GOARCH names it; see test/shoot/stub.
func Stub(t testing.TB, arch string) []byte {
	t.Helper()
	root, err := program.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	built := filepath.Join(t.TempDir(), "stub")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o",
		built, "./test/shoot/stub")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)

	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("build the stub: %v\n%s", err, out)
	}

	text, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}

	return text
}
