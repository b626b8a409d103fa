package tools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMirror(t *testing.T) {
	got := Mirror("http://mirror.example/debian/", "http://mirror.example/debian-security")
	want := []Source{
		{"http://mirror.example/debian", "trixie"},
		{"http://mirror.example/debian", "trixie-updates"},
		{"http://mirror.example/debian-security", "trixie-security"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDebianArchives(t *testing.T) {
	tests := []struct {
		name, lines string
		want        []string
	}{
		{"each Debian archive once", "Debian|http://m/debian/\nDebian-Security|http://m/sec/\n" +
			"Debian|http://m/debian/\n", []string{"http://m/debian/", "http://m/sec/"}},
		{"no archive of others", "Ubuntu|http://m/ubuntu/\n|http://m/tools\n" +
			"Node Source|http://m/node\n", nil},
		{"nothing configured", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, debianArchives(tt.lines)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadSources(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "etc/apt/sources.list")
	if err := os.MkdirAll(filepath.Dir(list), 0o755); err != nil {
		t.Fatal(err)
	}

	text := "# comment\ndeb http://m/debian trixie main\n" +
		"deb [signed-by=/k arch=amd64] http://m/sec/ trixie-security main\n" +
		"deb-src http://m/debian trixie main\n"
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	got, err := readSources(dir)
	if err != nil {
		t.Fatal(err)
	}

	want := []Source{{"http://m/debian", "trixie"}, {"http://m/sec", "trixie-security"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDigest(t *testing.T) {
	a := Env{Packages: []string{"mkosi"}, Mirrors: []string{"http://a"}}
	b := Env{Packages: []string{"mkosi"}, Mirrors: []string{"http://b"}, Cache: "/elsewhere"}
	if a.digest() != b.digest() {
		t.Error("the mirror changes the name of the tree")
	}
	if c := (Env{Packages: []string{"mkosi", "qemu"}}); a.digest() == c.digest() {
		t.Error("another package does not change the name of the tree")
	}
}

func TestArchitectures(t *testing.T) {
	packages := []string{
		"mkosi", "grub-efi:arm64", "systemd-boot-efi:amd64", "systemd-boot-efi:arm64",
	}
	if diff := cmp.Diff([]string{"amd64", "arm64"}, architectures("amd64", packages)); diff != "" {
		t.Error(diff)
	}
}

func TestReadList(t *testing.T) {
	a := filepath.Join(t.TempDir(), "a")
	b := filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(a, []byte("# judges\nmtools\n\nkmod\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b, []byte("kmod\nzstd\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	got, err := ReadList(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kmod", "mtools", "zstd"}, got); diff != "" {
		t.Error(diff)
	}
}
