package uki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// TestUkifyInspect adds sections to a stub; ukify must find each with its
// content. Where systemd-boot-efi is in the tools tree or installed, its stub
// is used as well.
func TestUkifyInspect(t *testing.T) {
	stubs := map[string][]byte{
		"small stub":        testStub(1024, 0),
		"headers that grow": testStub(512, 0),
	}

	if stub, err := os.ReadFile(os.Getenv("LOAM_TOOLS_TREE") +
		"/usr/lib/systemd/boot/efi/linuxx64.efi.stub"); err == nil {
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

			out := judge.Run(t, "ukify", "inspect", path)
			for _, want := range []string{
				".osrel:", "ID=loam", ".cmdline:", "roothash=00 quiet", ".uname:", ".linux:",
				".initrd:\n  size: 6000 bytes", ".sbat:",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("ukify inspect does not show %q:\n%s", want, out)
				}
			}
		})
	}
}
