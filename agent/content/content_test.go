package content_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/hint"
)

var (
	bundle  = osc.Reference{Secret: "ca", Key: "bundle.crt"}
	kubelet = osc.Reference{Image: "a.b:5000/c/hyperkube:v1@sha256:00", Path: "/bin/kubelet"}
)

// directory has both contents, and a file outside that must not be readable
// through it.
func directory(t *testing.T) content.Directory {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secrets/ca/bundle.crt"), "certificate\n")
	write(t, filepath.Join(dir, "images/a.b:5000/c/hyperkube:v1@sha256:00/bin/kubelet"), "program")
	write(t, filepath.Join(dir, "outside"), "secret")

	return content.Directory{Path: dir}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	got, err := content.Resolve(t.Context(), directory(t), []osc.Reference{bundle, kubelet})
	if err != nil {
		t.Fatal(err)
	}

	want := map[osc.Reference]config.Content{
		bundle:  config.Text("certificate\n"),
		kubelet: config.Text("program"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Resolve (-want +got):\n%s", diff)
	}

	for reference, text := range map[osc.Reference]string{
		bundle:  "certificate\n",
		kubelet: "program",
	} {
		if got := read(t, got[reference]); got != text || want[reference].Size != int64(len(text)) {
			t.Errorf("%s: %q, size %d", reference, got, want[reference].Size)
		}
	}
}

func read(t *testing.T, c config.Content) string {
	t.Helper()
	var text bytes.Buffer
	for range 2 { // Each Open starts at the beginning.
		text.Reset()
		r, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&text, r); err != nil {
			t.Fatal(err)
		}

		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}

	return text.String()
}

// The error names everything that is missing, and the rest is returned.
func TestResolveReportsAllErrors(t *testing.T) {
	d := directory(t)
	references := []osc.Reference{
		{Secret: "ca", Key: "other"},
		bundle,
		{Image: "a.b/none:v1", Path: "/x"},
	}

	got, err := content.Resolve(t.Context(), d, references)
	want := "find other of the Secret ca: " + d.Path + "/secrets/ca/other: not found\n" +
		"find /x of the image a.b/none:v1: " + d.Path + "/images/a.b/none:v1/x: not found"
	if err == nil || err.Error() != want || !errors.Is(err, content.ErrAbsent) {
		t.Errorf("error %v, want %s", err, want)
	}

	diff := cmp.Diff(map[osc.Reference]config.Content{bundle: config.Text("certificate\n")}, got)
	if diff != "" {
		t.Errorf("Resolve (-want +got):\n%s", diff)
	}
}

func TestResolveWithoutAPlace(t *testing.T) {
	if got, err := content.Resolve(t.Context(), nil, nil); err != nil || got == nil {
		t.Errorf("nothing to find: %v, %v, want an empty map", got, err)
	}
	_, err := content.Resolve(t.Context(), nil, []osc.Reference{bundle})
	const want = "find bundle.crt of the Secret ca: the node has no source of contents; " +
		"hint: name one in machine.yaml, such as contents: {directory: {path: /var/lib/contents}}"
	if err == nil || hint.Line(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Neither names nor links lead out, and only regular files are read.
func TestDirectoryRefuses(t *testing.T) {
	d := directory(t)
	for link, target := range map[string]string{
		"absolute": d.Path + "/outside",
		"relative": "../../outside",
		"inside":   "bundle.crt",
	} {
		if err := os.Symlink(target, filepath.Join(d.Path, "secrets/ca", link)); err != nil {
			t.Fatal(err)
		}
	}

	if err := syscall.Mkfifo(filepath.Join(d.Path, "secrets/ca/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct{ name, secret, key, want string }{
		{
			name:   "an absolute link out",
			secret: "ca",
			key:    "absolute",
			want:   "path escapes from parent",
		},
		{
			name:   "a relative link out",
			secret: "ca",
			key:    "relative",
			want:   "path escapes from parent",
		},
		{
			name:   "a key that leads out",
			secret: "ca",
			key:    "../../outside",
			want:   "path escapes from parent",
		},
		{
			name:   "a Secret that leads out",
			secret: "..",
			key:    "outside",
			want:   "path escapes from parent",
		},
		{
			name:   "a pipe",
			secret: "ca",
			key:    "pipe",
			want:   "is not a regular file",
		},
		{
			name:   "a directory",
			secret: ".",
			key:    "ca",
			want:   "is not a regular file",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := d.Secret(t.Context(), test.secret, test.key)
			if err == nil || !strings.HasSuffix(err.Error(), test.want) ||
				errors.Is(err, content.ErrAbsent) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}

	if _, err := d.Secret(t.Context(), "ca", "inside"); err != nil {
		t.Errorf("a link that stays inside: %v", err)
	}
}

func TestDirectoryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := directory(t).Secret(ctx, "ca", "bundle.crt"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// A directory that does not exist yet has nothing.
func TestDirectoryIsAbsent(t *testing.T) {
	_, err := (content.Directory{Path: "/nonexistent"}).Image(t.Context(), "a", "/b")
	if !errors.Is(err, content.ErrAbsent) {
		t.Errorf("error %v, want %v", err, content.ErrAbsent)
	}
}
