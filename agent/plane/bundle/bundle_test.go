package bundle

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint/fault"
)

const layoutIndex = `{"schemaVersion": 2, "manifests": [{
	"mediaType": "application/vnd.oci.image.manifest.v1+json",
	"digest": "sha256:0bd0ba6c4a3d4cb0dbbe8b3aee6dbb6ecd3e0ab2f3c3a9a8ff36cbb3ff5c0ad2", "size": 9,
	"annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/pause:3.10.1"}}]}`

// write makes a bundle in a directory, in which programs are a few bytes.
func write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "1.36.3")
	texts := map[string]string{"images/index.json": layoutIndex}
	for _, name := range Programs {
		texts["bin/"+name] = "program " + name
	}

	d := Description{Format: Format, Version: "1.36.3", Arch: "amd64"}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		sum, err := digest(path)
		if err != nil {
			t.Fatal(err)
		}
		d.Files = append(d.Files, File{Name: name, Size: int64(len(text)), SHA256: sum})
	}

	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, descriptionFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpen(t *testing.T) {
	dir := write(t)
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}

	if b.Version != "1.36.3" || b.Arch != "amd64" || b.Bin() != dir+"/bin" ||
		b.Layout() != dir+"/images" {
		t.Errorf("%+v", b)
	}
	if len(b.Images) != 1 || b.Images[0].Name != "registry.k8s.io/pause:3.10.1" ||
		!strings.HasPrefix(b.Images[0].Digest, "sha256:0bd0") {
		t.Errorf("images %v", b.Images)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"no program of that name": func(dir string) error {
			return os.Remove(dir + "/bin/kubelet")
		},
		"no images": func(dir string) error {
			return os.RemoveAll(dir + "/images")
		},
		"a program that was cut off": func(dir string) error {
			return os.Truncate(dir+"/bin/etcd", 3)
		},
		"a program that does not run": func(dir string) error {
			return os.Chmod(dir+"/bin/etcd", 0o644)
		},
		"a link": func(dir string) error {
			return errors.Join(os.Remove(dir+"/bin/etcd"), os.Symlink("/bin/true", dir+"/bin/etcd"))
		},
		"a description without programs": func(dir string) error {
			return os.WriteFile(dir+"/bundle.json", []byte(`{"format": 1}`), 0o644)
		},
		"a description of a later release": func(dir string) error {
			return os.WriteFile(dir+"/bundle.json", []byte(`{"format": 2}`), 0o644)
		},
		"a description that was cut off": func(dir string) error {
			return os.Truncate(dir+"/bundle.json", 40)
		},
		"an index of images that is none": func(dir string) error {
			return os.WriteFile(dir+"/images/index.json",
				[]byte(strings.Repeat("x", len(layoutIndex))), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir)
			if fault.Of(err) != fault.StateDamaged || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v, code %s", err, fault.Of(err))
			}
		})
	}
}

func TestVerifyFindsAChangedByte(t *testing.T) {
	dir := write(t)
	if err := os.WriteFile(dir+"/bin/kubelet", []byte("program KUBELET"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "bin/kubelet") {
		t.Errorf("error %v", err)
	}
}
