package cri

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

const header = "# Written by Loam: the image's file, changed as the node's configuration says.\n"

// PluginError is a Plugin that does not fit the configuration, or that replaces
// a value by a table or a table by a value.
type PluginError struct {
	// Index is the index in Config.Plugins.
	Index int
	Err   error
}

func (e *PluginError) Error() string { return fmt.Sprintf("plugin %d: %v", e.Index, e.Err) }
func (e *PluginError) Unwrap() error { return e.Err }

// Render returns the config.toml for cfg. It always starts from base, so what
// is removed from cfg is undone. Equal arguments give equal text. An error that
// cfg causes is a *PluginError.
func Render(cfg Config, base Base) (string, error) {
	d, err := build(cfg, base)
	if err != nil {
		return "", err
	}

	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(d.root); err != nil {
		return "", fmt.Errorf("encode the containerd configuration: %w", err)
	}

	return header + text.String(), nil
}

// Replaced returns the plugins of cfg that replace a table of base by a value,
// or a value by a table, which is rarely intended. Its errors are from
// Render.
func Replaced(cfg Config, base Base) ([]*PluginError, error) {
	d, err := build(cfg, base)
	return d.replaced, err
}

// build applies cfg to base.
func build(cfg Config, base Base) (document, error) {
	d := document{root: table{}, schema: cmp.Or(base.Schema, 2)}
	if err := toml.Unmarshal(base.Config, &d.root); err != nil {
		return d, fmt.Errorf("parse the image's containerd configuration: %w", err)
	}
	if err := d.applySettings(cfg, base); err != nil {
		return d, fmt.Errorf("the image's containerd configuration: %w", err)
	}

	for i, plugin := range cfg.Plugins {
		if err := d.change(i, plugin); err != nil {
			return d, &PluginError{Index: i, Err: err}
		}
	}

	d.listBinDirs()
	return d, nil
}

// change applies the Plugin at that index as gardener-node-agent does. A plugin
// without values makes an empty table. Null removes the name. Whatever is at
// the end of the path or below it is replaced. Only a value on the way to the
// end of the path is an error.
func (d *document) change(index int, plugin Plugin) error {
	if plugin.Remove {
		return d.removeAll(plugin.Path)
	}

	values := plugin.Values
	if values == nil {
		values = table{}
	}

	fixed := translate(d.schema, plugin.Path[:max(0, len(plugin.Path)-1)])

	return leaves(plugin.Path, plain(values), func(path []string, value any) error {
		if value == nil {
			return d.removeAll(path)
		}
		misfit, err := set(d.plugins, translate(d.schema, path), value, fixed)
		if misfit != nil {
			d.replaced = append(d.replaced, &PluginError{Index: index, Err: misfit})
		}
		return err
	})
}

// removeAll removes the value at path in schema 2.
func (d *document) removeAll(path []string) error {
	for _, path := range translateAll(d.schema, path) {
		if err := remove(d.plugins, path); err != nil {
			return err
		}
	}
	return nil
}
