package cri

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

const header = "# Written by Loam: the image's file, changed as the node's configuration says.\n"

// PluginError is a Plugin that does not fit the configuration.
type PluginError struct {
	// Index is of Config.Plugins.
	Index int
	Err   error
}

func (e *PluginError) Error() string { return fmt.Sprintf("plugin %d: %v", e.Index, e.Err) }
func (e *PluginError) Unwrap() error { return e.Err }

// Render is the config.toml for cfg. It begins with base each time, so that
// what leaves cfg is undone. Equal arguments give equal text. An error that cfg
// is to blame for is a *PluginError.
func Render(cfg Config, base Base) (string, error) {
	d := document{root: table{}, schema: cmp.Or(base.Schema, 2)}
	if err := toml.Unmarshal(base.Config, &d.root); err != nil {
		return "", fmt.Errorf("parse the image's containerd configuration: %w", err)
	}
	if err := d.settle(cfg, base); err != nil {
		return "", fmt.Errorf("the image's containerd configuration: %w", err)
	}
	for i, plugin := range cfg.Plugins {
		if err := d.change(plugin); err != nil {
			return "", &PluginError{Index: i, Err: err}
		}
	}
	d.listBinDirs()
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(d.root); err != nil {
		return "", fmt.Errorf("encode the containerd configuration: %w", err)
	}
	return header + text.String(), nil
}

// change carries out one Plugin.
func (d *document) change(plugin Plugin) error {
	if plugin.Remove {
		for _, path := range translateAll(d.schema, plugin.Path) {
			if err := remove(d.plugins, path); err != nil {
				return err
			}
		}
		return nil
	}
	if plugin.Values == nil {
		return nil
	}
	return leaves(plugin.Path, plain(plugin.Values), func(path []string, value any) error {
		return set(d.plugins, translate(d.schema, path), value)
	})
}
