package uki

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUkifyInspect adds sections to a stub; ukify must find each with its content. Where the package systemd-boot-efi is installed
// its stub is used as well; the image's own tests always use it.
func TestUkifyInspect(t *testing.T) {
	stubs := map[string][]byte{"small stub": testStub(1024, 0), "headers that grow": testStub(512, 0)}
	if stub, err := os.ReadFile("/usr/lib/systemd/boot/efi/linuxx64.efi.stub"); err == nil {
		stubs["systemd-stub"] = stub
	}
	for name, stub := range stubs {
		t.Run(name, func(t *testing.T) {
			b, err := Build(stub, testSections())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "uki.efi")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			out := judge(t, "ukify", "inspect", path)
			for _, want := range []string{".osrel:", "ID=loam", ".cmdline:", "roothash=00 quiet", ".uname:", ".linux:",
				".initrd:\n  size: 6000 bytes", ".sbat:"} {
				if !strings.Contains(out, want) {
					t.Errorf("ukify inspect does not show %q:\n%s", want, out)
				}
			}
		})
	}
}

// judge runs a real tool and returns its output. A missing tool is a skip for a person and a failure in CI.
func judge(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
