package cri_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/loam-os/loam/agent/cri"
)

const (
	v2      = "io.containerd.grpc.v1.cri"
	images  = "io.containerd.cri.v1.images"
	runtime = "io.containerd.cri.v1.runtime"
)

// get returns the value at path in a TOML text, or nil.
func get(t *testing.T, text string, path ...string) any {
	t.Helper()
	root := map[string]any{}
	if err := toml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}

	var value any = root
	for _, name := range path {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = inner[name]
	}

	return value
}

func add(values any, path ...string) cri.Plugin { return cri.Plugin{Path: path, Values: values} }
func remove(path ...string) cri.Plugin          { return cri.Plugin{Remove: true, Path: path} }

func TestRender(t *testing.T) {
	type fields = map[string]any
	for _, test := range []struct {
		name    string
		base    cri.Base
		config  cri.Config
		path    []string
		want    any
		plugins bool // path begins below plugins
	}{
		{
			name: "imports of the image stay",
			base: cri.Base{Config: []byte("imports = ['/a']")},
			path: []string{"imports"},
			want: []any{"/a", "/etc/containerd/conf.d/*.toml"},
		},
		{
			name: "imports are added once",
			base: cri.Base{Config: []byte("imports = ['/etc/containerd/conf.d/*.toml']")},
			path: []string{"imports"},
			want: []any{"/etc/containerd/conf.d/*.toml"},
		},
		{
			name: "the version of the image stays",
			base: cri.Base{Config: []byte("version = 4"), Schema: 4},
			path: []string{"version"},
			want: int64(4),
		},
		{name: "without a version it is 2", path: []string{"version"}, want: int64(2)},
		{
			name:    "what is not asked for stays the image's",
			plugins: true,
			base:    cri.Base{Config: []byte("plugins.'" + v2 + "'.sandbox_image = 'a'")},
			path:    []string{v2, "sandbox_image"},
			want:    "a",
		},
		{
			name:    "cgroupfs",
			plugins: true,
			config:  cri.Config{CgroupDriver: "cgroupfs"},
			path:    []string{v2, "containerd", "runtimes", "runc", "options", "SystemdCgroup"},
			want:    false,
		},
		{
			name:    "a runc of the image's own stays",
			plugins: true,
			base: cri.Base{Config: []byte("plugins.'" + v2 +
				"'.containerd.runtimes.runc.runtime_type = 'x'")},
			path: []string{v2, "containerd", "runtimes", "runc", "runtime_type"},
			want: "x",
		},
		{
			name:    "schema 4 lists directories of CNI",
			plugins: true,
			base:    cri.Base{Schema: 4},
			path:    []string{runtime, "cni", "bin_dirs"},
			want:    []any{"/opt/cni/bin"},
		},
		{
			name:    "an image that lists directories of CNI",
			plugins: true,
			base: cri.Base{
				Schema: 3,
				Config: []byte("plugins.'" + runtime + "'.cni.bin_dirs = ['/a']"),
			},
			path: []string{runtime, "cni"},
			want: fields{"bin_dirs": []any{"/opt/cni/bin"}},
		},

		{
			name:    "a merge keeps what is beside it",
			plugins: true,
			base:    cri.Base{Config: []byte("plugins.a = {b = 1, c = {d = 2}}")},
			config:  cri.Config{Plugins: []cri.Plugin{add(fields{"c": fields{"e": 3.0}}, "a")}},
			path:    []string{"a"},
			want:    fields{"b": int64(1), "c": fields{"d": int64(2), "e": int64(3)}},
		},
		{
			name:    "a value that is no table replaces one",
			plugins: true,
			base:    cri.Base{Config: []byte("plugins.a.b = [1]")},
			config:  cri.Config{Plugins: []cri.Plugin{add([]any{"x", 2.5, 1e3}, "a", "b")}},
			path:    []string{"a", "b"},
			want:    []any{"x", 2.5, int64(1000)},
		},
		{
			name:    "an empty table is added",
			plugins: true,
			config:  cri.Config{Plugins: []cri.Plugin{add(fields{}, "a", "b")}},
			path:    []string{"a", "b"},
			want:    fields{},
		},
		{
			name:    "later plugins win",
			plugins: true,
			config: cri.Config{
				SandboxImage: "a",
				Plugins: []cri.Plugin{
					add("b", v2, "sandbox_image"), add("c", v2, "sandbox_image"),
				},
			},
			path: []string{v2, "sandbox_image"},
			want: "c",
		},
		{
			name:    "a removal",
			plugins: true,
			base:    cri.Base{Config: []byte("plugins.a = {b = 1, c = 2}")},
			config:  cri.Config{Plugins: []cri.Plugin{remove("a", "b")}},
			path:    []string{"a"},
			want:    fields{"c": int64(2)},
		},
		{
			name:    "a removal of what is not there",
			plugins: true,
			config:  cri.Config{Plugins: []cri.Plugin{remove("a", "b", "c")}},
			path:    []string{"a"},
			want:    nil,
		},
		{
			name:    "a removal, then an addition",
			plugins: true,
			base:    cri.Base{Config: []byte("plugins.a.b = 1")},
			config:  cri.Config{Plugins: []cri.Plugin{remove("a"), add(fields{"c": "d"}, "a")}},
			path:    []string{"a"},
			want:    fields{"c": "d"},
		},

		{
			name:    "a name of schema 2 in schema 3: a runtime",
			plugins: true,
			base:    cri.Base{Schema: 3},
			config: cri.Config{
				Plugins: []cri.Plugin{add(fields{"runtime_type": "x"}, v2, "containerd",
					"runtimes", "g")},
			},
			path: []string{runtime, "containerd", "runtimes", "g", "runtime_type"},
			want: "x",
		},
		{
			name:    "a name of schema 2 in schema 3: the sandbox image",
			plugins: true,
			base:    cri.Base{Schema: 3},
			config:  cri.Config{Plugins: []cri.Plugin{add(fields{"sandbox_image": "x"}, v2)}},
			path:    []string{images, "pinned_images", "sandbox"},
			want:    "x",
		},
		{
			name:    "a name of schema 2 in schema 3: a registry",
			plugins: true,
			base:    cri.Base{Schema: 3},
			config:  cri.Config{Plugins: []cri.Plugin{add("x", v2, "registry", "headers", "A")}},
			path:    []string{images, "registry", "headers", "A"},
			want:    "x",
		},
		{
			name:    "a name of schema 2 in schema 3: the snapshotter",
			plugins: true,
			base:    cri.Base{Schema: 3},
			config: cri.Config{
				Plugins: []cri.Plugin{add(fields{"snapshotter": "x"}, v2, "containerd")},
			},
			path: []string{images, "snapshotter"},
			want: "x",
		},
		{
			name:    "a name of schema 2 in schema 3: the server",
			plugins: true,
			base:    cri.Base{Schema: 3},
			config:  cri.Config{Plugins: []cri.Plugin{add("x", v2, "stream_server_address")}},
			path:    []string{v2},
			want:    fields{"stream_server_address": "x"},
		},
		{
			name:    "a name of schema 2 in schema 3: CNI",
			plugins: true,
			base:    cri.Base{Schema: 3, BinDirs: true},
			config:  cri.Config{Plugins: []cri.Plugin{add("/x", v2, "cni", "bin_dir")}},
			path:    []string{runtime, "cni"},
			want:    fields{"bin_dirs": []any{"/x"}},
		},
		{
			name:    "a list of directories of CNI wins",
			plugins: true,
			base:    cri.Base{Schema: 3, BinDirs: true},
			config: cri.Config{
				Plugins: []cri.Plugin{add([]any{"/x"}, runtime, "cni", "bin_dirs")},
			},
			path: []string{runtime, "cni"},
			want: fields{"bin_dirs": []any{"/x"}},
		},
		{
			name:    "a removal by a name of schema 2 is one in all plugins of schema 3",
			plugins: true,
			base:    cri.Base{Schema: 3},
			config: cri.Config{Plugins: []cri.Plugin{
				add("x", v2, "containerd", "snapshotter"), remove(v2, "containerd"),
			}},
			path: []string{images},
			want: fields{"registry": fields{"config_path": "/etc/containerd/certs.d"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := cri.Render(test.config, test.base)
			if err != nil {
				t.Fatal(err)
			}

			path := test.path
			if test.plugins {
				path = append([]string{"plugins"}, path...)
			}

			if diff := cmp.Diff(test.want, get(t, text, path...)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", path, diff)
			}
		})
	}
}

// As with gardener-node-agent, whatever is at the end of a plugin's path or
// below it is replaced, and null removes it.
func TestReplaced(t *testing.T) {
	const base = "plugins.a.b = 1\nplugins.a.c = 2"
	for _, test := range []struct {
		name     string
		plugin   cri.Plugin
		want     map[string]any
		replaced string
	}{
		{
			name:   "another value",
			plugin: add(map[string]any{"b": 3}, "a"),
			want:   map[string]any{"b": int64(3), "c": int64(2)},
		},
		{
			name:   "a table of no values, that is there",
			plugin: add(nil, "a"),
			want:   map[string]any{"b": int64(1), "c": int64(2)},
		},
		{
			name:   "a table of no values, that is new",
			plugin: add(nil, "a", "d"),
			want:   map[string]any{"b": int64(1), "c": int64(2), "d": map[string]any{}},
		},
		{
			name:   "null",
			plugin: add(map[string]any{"b": nil, "d": nil}, "a"),
			want:   map[string]any{"c": int64(2)},
		},
		{
			name:     "a value by a table",
			plugin:   add(map[string]any{"d": 3}, "a", "b"),
			want:     map[string]any{"b": map[string]any{"d": int64(3)}, "c": int64(2)},
			replaced: "plugin 0: plugins.a.b is a value, not a table",
		},
		{
			name:     "a value by a table of no values",
			plugin:   add(nil, "a", "b"),
			want:     map[string]any{"b": map[string]any{}, "c": int64(2)},
			replaced: "plugin 0: plugins.a.b is a value, not a table",
		},
		{
			name:     "a value by a table further down",
			plugin:   add(map[string]any{"b": map[string]any{"d": 3}}, "a"),
			want:     map[string]any{"b": map[string]any{"d": int64(3)}, "c": int64(2)},
			replaced: "plugin 0: plugins.a.b is a value, not a table",
		},
		{
			name:     "a table by a value",
			plugin:   add(map[string]any{"a": []any{}}),
			want:     nil,
			replaced: "plugin 0: plugins.a is a table, not a value",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := cri.Config{Plugins: []cri.Plugin{test.plugin}}
			base := cri.Base{Config: []byte(base)}
			text, err := cri.Render(config, base)
			if err != nil {
				t.Fatal(err)
			}

			got, _ := get(t, text, "plugins", "a").(map[string]any)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plugins.a (-want +got):\n%s", diff)
			}

			all, err := cri.Replaced(config, base)
			if err != nil {
				t.Fatal(err)
			}

			replaced := ""
			for _, plugin := range all {
				replaced += plugin.Error()
			}
			if replaced != test.replaced {
				t.Errorf("replaced %q, want %q", replaced, test.replaced)
			}
		})
	}
}

func TestRenderErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		base   string
		schema int
		plugin cri.Plugin
		want   string
	}{
		{
			name:   "a path through a value",
			base:   "plugins.a.b = 1",
			plugin: add("x", "a", "b", "c"),
			want:   "plugin 0: plugins.a.b is a value, not a table",
		},
		{
			name:   "a removal through a value",
			base:   "plugins.a.b = 1",
			plugin: remove("a", "b", "c"),
			want:   "plugin 0: plugins.a.b is a value, not a table",
		},
		{
			name:   "a value in the place of plugins",
			plugin: add("x"),
			want:   "plugin 0: plugins is a table, not a value",
		},
		{
			name: "an image whose file is no TOML",
			base: "a = ",
			want: "parse the image's containerd configuration: toml: ",
		},
		{
			name:   "an image of schema 1",
			schema: 1,
			want: "the image's containerd configuration: version is 1, " +
				"which no supported containerd reads",
		},
		{
			name: "an image where plugins is a value",
			base: "plugins = 1",
			want: "the image's containerd configuration: plugins is a value, not a table",
		},
		{
			name: "an image where a plugin is a value",
			base: "plugins.'" + v2 + "' = 1",
			want: "the image's containerd configuration: plugins." + v2 +
				" is a value, not a table",
		},
		{
			name: "an image where imports is a value",
			base: "imports = 1",
			want: "the image's containerd configuration: imports is not a list",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := cri.Render(cri.Config{Plugins: []cri.Plugin{test.plugin}},
				cri.Base{Config: []byte(test.base), Schema: test.schema})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}

			var blamed *cri.PluginError
			got := errors.As(err, &blamed)
			want := strings.HasPrefix(test.want, "plugin 0")
			if got != want {
				t.Errorf("a PluginError: %v, want %v", got, want)
			}
		})
	}
}

// A value that is removed from the configuration is not in the next file.
func TestRenderForgets(t *testing.T) {
	base := cri.Base{Config: []byte("version = 2\n")}
	before, err := cri.Render(cri.Config{}, base)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := cri.Render(wanted(), base); err != nil {
		t.Fatal(err)
	}

	after, err := cri.Render(cri.Config{}, base)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("Render (-first +third):\n%s", diff)
	}
}

// FuzzRender checks that Render never panics, that containerd can read its
// output, and that the output is deterministic.
func FuzzRender(f *testing.F) {
	f.Add([]byte("version = 2\n"+
		"plugins.a.b = 1"),
		[]byte(`{"SandboxImage":"a","Plugins":[{"Path":["a"],"Values":{"c":[1,{"d":null}]}}]}`), 2,
		false)

	f.Add([]byte(""),
		[]byte(
			`{"CgroupDriver":"systemd","Plugins":[{"Path":["io.containerd.grpc.v1.cri","cni"],"Remove":true}]}`,
		), 3, true)

	f.Add([]byte("a = 1979-05-27\nb = [[1], ['']]\n[[c]]\n"),
		[]byte(`{"Plugins":[{"Path":["","'\"\u0000"],"Values":"\n"}]}`), 4, false)
	f.Fuzz(func(t *testing.T, text, document []byte, schema int, binDirs bool) {
		config := decode(document)
		base := cri.Base{Config: text, Schema: schema, BinDirs: binDirs}
		got, err := cri.Render(config, base)
		if err != nil {
			return
		}

		if get(t, got, "version") == nil {
			t.Errorf("no version in\n%s", got)
		}
		if again, err := cri.Render(config, base); err != nil || again != got {
			t.Errorf("another text: %v\n%s", err, cmp.Diff(got, again))
		}
	})
}
