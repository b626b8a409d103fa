package cri_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cri"
)

func TestSchema(t *testing.T) {
	one := &debug.BuildInfo{Path: "github.com/containerd/containerd/cmd/containerd"}
	two := &debug.BuildInfo{Path: "github.com/containerd/containerd/v2/cmd/containerd"}
	for _, test := range []struct {
		name, config string
		info         *debug.BuildInfo
		want         int
	}{
		{name: "no containerd", want: 2},
		{name: "containerd 1", info: one, want: 2},
		{name: "containerd 2", info: two, want: 3},
		{
			name:   "the file says it",
			config: "version = 2",
			info:   two,
			want:   2,
		},
		{
			name:   "a file without a version",
			config: "oom_score = 1",
			info:   two,
			want:   3,
		},
		{
			name:   "a later version",
			config: "version = 4",
			info:   two,
			want:   4,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := cri.Schema([]byte(test.config), test.info)
			if err != nil || got != test.want {
				t.Errorf("Schema = %d, %v, want %d", got, err, test.want)
			}
		})
	}

	_, err := cri.Schema([]byte("version = "), nil)
	if err == nil ||
		!strings.HasPrefix(err.Error(), "parse the image's containerd configuration: ") {
		t.Errorf("Schema of no TOML: %v", err)
	}
}

// image returns a root file system with these files.
func image(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, dir)
}

func open(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestObserve(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  cri.Base
	}{
		{name: "an image without containerd", want: cri.Base{Schema: 2}},
		{
			name:  "a containerd that is a script",
			files: map[string]string{"usr/bin/containerd": "#!/bin/sh\n"},
			want:  cri.Base{Schema: 2},
		},
		{
			name:  "a configuration of the image",
			files: map[string]string{"etc/containerd/config.toml": "version = 3\n"},
			want:  cri.Base{Schema: 3, Config: []byte("version = 3\n")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := cri.Observe(image(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Observe (-want +got):\n%s", diff)
			}
		})
	}

	_, err := cri.Observe(image(t, map[string]string{"etc/containerd/config.toml": "="}))
	if err == nil {
		t.Error("Observe of no TOML: no error")
	}
}
