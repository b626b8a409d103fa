package registry

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

// two is an image whose layers interact in every way.
var two = cluster.Image{Layers: []cluster.Layer{
	{
		"bin/old":      text("old"),
		"bin/gone":     text("gone"),
		"etc/conf/a":   text("lower"),
		"etc/conf/c":   text("lower"),
		"usr/bin/tool": text("tool"),
		"sbin":         {Link: "usr/bin"},
		"out":          {Link: "../../../../etc/hostname"},
	},
	{
		"bin/new":               text("new"),
		"bin/.wh.gone":          text(""),
		"etc/conf/.wh..wh..opq": text(""),
		"etc/conf/a":            text("upper"),
	},
}}

func TestImage(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	host := r.Address()
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	one := cluster.Image{Layers: []cluster.Layer{{"kubelet": text("v1")}}}
	manifest := r.Push(t, "a/two:v1", two)
	index := r.PushIndex(t, "a/index:v1",
		cluster.Image{Arch: other, Layers: []cluster.Layer{{"kubelet": text("theirs")}}}, one)
	r.Push(t, "a/other:v1", cluster.Image{Arch: other, Layers: one.Layers})
	r.PushIndex(t, "a/others:v1", cluster.Image{Arch: other, Layers: one.Layers})

	provider := New(c.Socket())
	for _, row := range []struct{ name, ref, path, want, err string }{
		{
			name: "by tag",
			ref:  "/a/two:v1",
			path: "/bin/new",
			want: "new",
		},
		{
			name: "by digest",
			ref:  "/a/two@" + manifest,
			path: "/bin/new",
			want: "new",
		},
		{
			name: "by tag and digest",
			ref:  "/a/two:v1@" + manifest,
			path: "/bin/new",
			want: "new",
		},
		{
			name: "by a moved tag and digest",
			ref:  "/a/two:v0@" + manifest,
			path: "/bin/new",
			want: "new",
		},
		{
			name: "from an index",
			ref:  "/a/index:v1",
			path: "/kubelet",
			want: "v1",
		},
		{
			name: "from an index by digest",
			ref:  "/a/index@" + index,
			path: "/kubelet",
			want: "v1",
		},
		{
			name: "of a lower layer",
			ref:  "/a/two:v1",
			path: "/bin/old",
			want: "old",
		},
		{
			name: "overwritten",
			ref:  "/a/two:v1",
			path: "/etc/conf/a",
			want: "upper",
		},
		{
			name: "through a link to a directory",
			ref:  "/a/two:v1",
			path: "/sbin/tool",
			want: "tool",
		},
		{
			name: "hidden by a whiteout",
			ref:  "/a/two:v1",
			path: "/bin/gone",
			err:  "not found; hint: /bin has new, old",
		},
		{
			name: "hidden by an opaque directory",
			ref:  "/a/two:v1",
			path: "/etc/conf/c",
			err:  "not found; hint: /etc/conf has a",
		},
		{
			name: "a link out of the image",
			ref:  "/a/two:v1",
			path: "/out",
			err:  "not found; /out is a link to ../../../../etc/hostname",
		},
		{
			name: "no such image",
			ref:  "/a/none:v1",
			path: "/x",
			err: "the registry " + host + " has no such image: not found; hint: " +
				"has it been pushed?",
		},
		{
			name: "no such digest",
			ref:  "/a/two@sha256:" + strings.Repeat("00", 32),
			path: "/x",
			err: "the registry " + host + " has no such image: not found; hint: " +
				"has it been pushed?",
		},
		{
			name: "an index for other platforms",
			ref:  "/a/others:v1",
			path: "/kubelet",
			err: "the image is for linux/" + other + ", this node is linux/" + runtime.GOARCH +
				"; hint: name an image for it, or an index that has one",
		},
		{
			name: "an image for another platform",
			ref:  "/a/other:v1",
			path: "/kubelet",
			err: "the image is for linux/" + other + ", this node is linux/" + runtime.GOARCH +
				"; hint: name an image for it, or an index that has one",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := get(t, provider, host+row.ref, row.path)
			if row.err == "" && (err != nil || got != row.want) {
				t.Errorf("%q, %v, want %q", got, err, row.want)
			}
			if row.err != "" && (err == nil || hint.Line(err) != row.err) {
				t.Errorf("error %v, want %s", err, row.err)
			}
		})
	}
}

// Errors name the image, the path and the cause.
func TestErrorsNameImageAndPath(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	r.Push(t, "a/two:v1", two)
	reference := osc.Reference{Image: r.Address() + "/a/two:v1", Path: "/tool"}
	_, err := content.Resolve(t.Context(), imagesOnly{New(c.Socket())}, []osc.Reference{reference})
	want := "find /tool of the image " + reference.Image + ": not found; hint: " +
		"the image has /usr/bin/tool"
	if err == nil || hint.Line(err) != want || !errors.Is(err, content.ErrAbsent) {
		t.Errorf("error %v, want %s", err, want)
	}
}
