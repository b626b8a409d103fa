package registry

import (
	"archive/tar"
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/hint"
)

func TestFind(t *testing.T) {
	for _, row := range []struct {
		name   string
		layers [][]string
		path   string
		want   string // content
		err    string
	}{
		{
			name:   "a file of the only layer",
			layers: [][]string{{"bin/", "bin/a=1"}},
			path:   "/bin/a",
			want:   "1",
		},
		{
			name:   "a file of a lower layer",
			layers: [][]string{{"a=1"}, {"b=2"}},
			path:   "/a",
			want:   "1",
		},
		{
			name:   "the upper layer's file wins",
			layers: [][]string{{"a=1"}, {"a=2"}},
			path:   "/a",
			want:   "2",
		},
		{
			name:   "the last of two in one layer wins",
			layers: [][]string{{"a=1", "a=2"}},
			path:   "/a",
			want:   "2",
		},
		{
			name:   "names that begin with ./ or /",
			layers: [][]string{{"./a/b=1", "/a/c=2"}},
			path:   "/a/c",
			want:   "2",
		},
		{
			name:   "a whiteout hides",
			layers: [][]string{{"d/a=1", "d/b=1"}, {"d/.wh.a="}},
			path:   "/d/a",
			err:    "not found; hint: /d has b",
		},
		{
			name:   "a whiteout hides a directory",
			layers: [][]string{{"d/e/a=1"}, {"d/.wh.e="}},
			path:   "/d/e/a",
			err:    "not found; hint: /d is empty",
		},
		{
			name:   "a whiteout spares its own layer, before",
			layers: [][]string{{"a=1"}, {".wh.a=", "a=2"}},
			path:   "/a",
			want:   "2",
		},
		{
			name:   "a whiteout spares its own layer, after",
			layers: [][]string{{"a=1"}, {"a=2", ".wh.a="}},
			path:   "/a",
			want:   "2",
		},
		{
			name:   "a hidden file comes back",
			layers: [][]string{{"a=1"}, {".wh.a="}, {"a=3"}},
			path:   "/a",
			want:   "3",
		},
		{
			name:   "an opaque directory hides all below",
			layers: [][]string{{"d/e/a=1"}, {"d/.wh..wh..opq=", "d/b=2"}},
			path:   "/d/e/a",
			err:    "not found; hint: /d has b",
		},
		{
			name:   "an opaque directory spares its own layer",
			layers: [][]string{{"d/e/a=1"}, {"d/e/b=2", "d/.wh..wh..opq="}},
			path:   "/d/e/b",
			want:   "2",
		},
		{
			name:   "an opaque directory hides lower files of the same directory",
			layers: [][]string{{"d/e/a=1"}, {"d/e/b=2", "d/.wh..wh..opq="}},
			path:   "/d/e/a",
			err:    "not found; hint: /d/e has b",
		},
		{
			name:   "a hard link is its target",
			layers: [][]string{{"a=1", "b => a"}},
			path:   "/b",
			want:   "1",
		},
		{
			name:   "a hard link to a lower layer",
			layers: [][]string{{"d/a=1"}, {"b => d/a"}},
			path:   "/b",
			want:   "1",
		},
		{
			name:   "a hard link stays when its target goes",
			layers: [][]string{{"a=1", "b => a"}, {".wh.a="}},
			path:   "/b",
			want:   "1",
		},
		{
			name:   "a hard link stays when its target is replaced",
			layers: [][]string{{"a=1", "b => a"}, {"a=2"}},
			path:   "/b",
			want:   "1",
		},
		{
			name:   "a hard link to a symbolic one",
			layers: [][]string{{"a=1", "l -> a", "m => l"}},
			path:   "/m",
			want:   "1",
		},
		{
			name:   "a hard link to nothing",
			layers: [][]string{{"b => a"}},
			path:   "/b",
			err:    "/b: hard link to /a: no such file",
		},
		{
			name:   "a symbolic link, relative",
			layers: [][]string{{"usr/bin/a=1", "bin/a -> ../usr/bin/a"}},
			path:   "/bin/a",
			want:   "1",
		},
		{
			name:   "a symbolic link, absolute",
			layers: [][]string{{"usr/bin/a=1", "bin -> /usr/bin"}},
			path:   "/bin/a",
			want:   "1",
		},
		{
			name:   "a link that goes up from a linked directory",
			layers: [][]string{{"x/y/a=1", "l -> x/y", "x/b=2"}},
			path:   "/l/../b",
			want:   "2",
		},
		{
			name:   "a file written through a link to a directory",
			layers: [][]string{{"usr/bin/", "bin -> usr/bin"}, {"bin/a=1"}},
			path:   "/usr/bin/a",
			want:   "1",
		},
		{
			name:   "a directory in place of a link",
			layers: [][]string{{"usr/bin/a=1", "bin -> usr/bin"}, {"bin/"}},
			path:   "/bin/a",
			err:    "not found; hint: the image has /usr/bin/a",
		},
		{
			name:   "a directory again is the same",
			layers: [][]string{{"d/a=1"}, {"d/", "d/b=2"}},
			path:   "/d/a",
			want:   "1",
		},
		{
			name:   "a file in place of a directory",
			layers: [][]string{{"d/a=1"}, {"d=2"}},
			path:   "/d",
			want:   "2",
		},
		{
			name:   "a link out of the image ends at the root",
			layers: [][]string{{"etc/passwd=theirs", "a -> ../../../etc/passwd"}},
			path:   "/a",
			want:   "theirs",
		},
		{
			name:   "a dangling link out of the image",
			layers: [][]string{{"a -> /../etc/shadow"}},
			path:   "/a",
			err:    "not found; /a is a link to /../etc/shadow",
		},
		{
			name:   "a member outside the image ends at the root",
			layers: [][]string{{"../../a=1"}},
			path:   "/a",
			want:   "1",
		},
		{
			name:   "a loop of links",
			layers: [][]string{{"a -> b", "b -> a"}},
			path:   "/a",
			err:    "too many symbolic links",
		},
		{
			name:   "a member below a loop of links",
			layers: [][]string{{"a -> a", "a/b=1"}},
			path:   "/a/b",
			err:    "/a/b: too many symbolic links",
		},
		{
			name:   "a member below a file",
			layers: [][]string{{"a=1", "a/b=1"}},
			path:   "/a/b",
			err:    "/a/b: is below a file that is not a directory",
		},
		{
			name:   "a path below a file",
			layers: [][]string{{"a=1"}},
			path:   "/a/b",
			err:    "/a is not a directory",
		},
		{
			name:   "a directory",
			layers: [][]string{{"d/b=", "d/a="}},
			path:   "/d",
			err:    "/d is a directory; hint: it has a, b",
		},
		{
			name:   "a pipe",
			layers: [][]string{{"p!"}},
			path:   "/p",
			err:    "/p is not a regular file",
		},
		{
			name:   "a similar name",
			layers: [][]string{{"bin/kubelet=1", "bin/x="}},
			path:   "/bin/kublet",
			err:    "not found; hint: did you mean /bin/kubelet?",
		},
		{
			name:   "the name in other places",
			layers: [][]string{{"a/kubelet=1", "b/kubelet="}},
			path:   "/kubelet",
			err:    "not found; hint: the image has /a/kubelet, /b/kubelet",
		},
		{
			name:   "one name of many",
			layers: [][]string{{"1=", "2=", "3=", "4=", "5=", "6="}},
			path:   "/kubelet",
			err:    "not found; hint: / has 1, 2, 3, 4, 5 and others",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var layers [][]byte
			for _, members := range row.layers {
				layers = append(layers, pack(t, members...))
			}

			got, err := content1(t, layers, row.path)
			if row.err != "" {
				if err == nil || hint.Line(err) != row.err {
					t.Errorf("error %v, want %s", err, row.err)
				}
				if errors.Is(err, content.ErrAbsent) != strings.HasPrefix(row.err,
					"not found") {
					t.Errorf("error %v: ErrAbsent is wrong", err)
				}
				return
			}

			if err != nil || got != row.want {
				t.Errorf("%q, %v, want %q", got, err, row.want)
			}
		})
	}
}

// A registry that wants the memory of a node gives its layers names without end.
func TestNamesThatNoImageHasAreRefused(t *testing.T) {
	tree := newTree()
	long := &tar.Header{Name: strings.Repeat("d/", 2000) + "f"}
	if err := tree.place(0, long, &file{}); err != nil || tree.names != 2001 {
		t.Errorf("a long name: %d names, %v; want 2001", tree.names, err)
	}

	longer := &tar.Header{Name: strings.Repeat("e/", 2100) + "f"}
	if err := tree.place(0, longer, &file{}); err == nil {
		t.Error("a name that is longer than Linux allows is accepted")
	}

	tree.names = maxNames - 10
	many := &tar.Header{Name: strings.Repeat("f/", 20) + "f"}
	if err := tree.place(0, many, &file{}); err == nil {
		t.Error("the directories of a name do not count")
	}
}
