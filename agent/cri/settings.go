package cri

import (
	"errors"
	"fmt"
	"slices"
)

// Where Kubernetes expects CNI plugins, and where extensions put their own
// files (containerd config.toml(5), imports).
const (
	cniDir  = "/opt/cni/bin"
	imports = "/etc/containerd/conf.d/*.toml"
)

// runc is the default runtime of containers, in schema 2.
var runc = []string{criPlugin, "containerd", "runtimes", "runc"}

// document is a config.toml under construction. plugins is its table of that
// name.
type document struct {
	root, plugins table
	schema        int
	binDirs       bool

	// replaced are the plugins that replace a table by a value or a value by a
	// table.
	replaced []*PluginError
}

// applySettings writes the settings of cfg and base that are not plugins.
func (d *document) applySettings(cfg Config, base Base) (err error) {
	if d.schema < 2 {
		return fmt.Errorf("version is %d, which no supported containerd reads", d.schema)
	}

	d.root["version"] = int64(d.schema)
	d.plugins, err = section(d.root, "plugins")
	if err != nil {
		return err
	}

	_, listed := d.cni()["bin_dirs"]
	d.binDirs = d.schema >= 4 || (d.schema == 3 && (base.BinDirs || listed))

	if err := d.importMore(); err != nil {
		return err
	}

	for _, s := range settings(cfg) {
		path := translate(d.schema, s.path)
		if _, err := set(d.plugins, path, s.value, path); err != nil {
			return err
		}
	}

	d.listBinDirs()
	return d.keepRunc()
}

// setting is a value at a path of schema 2.
type setting struct {
	path  []string
	value any
}

func settings(cfg Config) []setting {
	list := []setting{
		{[]string{criPlugin, "registry", "config_path"}, HostsDir},
		{[]string{criPlugin, "cni", "bin_dir"}, cniDir},
	}
	if cfg.SandboxImage != "" {
		list = append(list, setting{[]string{criPlugin, "sandbox_image"}, cfg.SandboxImage})
	}
	if cfg.CgroupDriver != "" {
		path := slices.Concat(runc, []string{"options", "SystemdCgroup"})
		list = append(list, setting{path, cfg.CgroupDriver == "systemd"})
	}
	return list
}

// keepRunc sets the program of runc's shim: containerd 1.7 forgets its default
// as soon as a file has any entry in runtimes.
func (d *document) keepRunc() error {
	path := translate(d.schema, runc)
	entry, _, err := enter(d.plugins, path, path)
	if err == nil && entry["runtime_type"] == nil {
		entry["runtime_type"] = "io.containerd.runc.v2"
	}
	return err
}

func section(root table, name string) (table, error) {
	if root[name] == nil {
		root[name] = table{}
	}
	found, ok := root[name].(table)
	if !ok {
		return nil, fmt.Errorf("%s is a value, not a table", name)
	}
	return found, nil
}

// importMore adds the directory of extensions to imports, once.
func (d *document) importMore() error {
	list, ok := d.root["imports"].([]any)
	if !ok && d.root["imports"] != nil {
		return errors.New("imports is not a list")
	}
	if !slices.Contains(list, any(imports)) {
		d.root["imports"] = append(list, imports)
	}
	return nil
}

// listBinDirs turns cni.bin_dir into a list where containerd accepts either but
// not both.
func (d *document) listBinDirs() {
	cni := d.cni()
	if dir, given := cni["bin_dir"]; given && d.binDirs {
		cni["bin_dirs"] = []any{dir}
		delete(cni, "bin_dir")
	}
}

// cni returns the CNI table of schema 3, or nil.
func (d *document) cni() table {
	runtime, _ := d.plugins[runtimePlugin].(table)
	cni, _ := runtime["cni"].(table)
	return cni
}
