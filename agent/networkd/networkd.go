package networkd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/network"
)

// Record keeps the network that machine.yaml gave last, relative to the root
// directory: a node stays within reach when the document is gone or cannot be
// read.
const Record = "var/lib/loam/network.json"

// Unit is what reads the files.
const Unit = "systemd-networkd.service"

// link is network.Dir, sets what it leads to: a directory for each set of
// files.
var link, sets = strings.TrimPrefix(network.Dir, "/"), "run/loam/network"

// Keep records f for the next boot; no files are the image's own.
func Keep(node *durable.Dir, f network.Files) error {
	if len(f) == 0 {
		return node.Remove(Record)
	}

	text, err := f.Encode()
	if err != nil {
		return err
	}

	if err := node.MkdirAll(path.Dir(Record)); err != nil {
		return fmt.Errorf("keep the network: %w", err)
	}
	if _, err := node.WriteFile(Record, text, 0o644); err != nil {
		return fmt.Errorf("keep the network: %w", err)
	}

	return nil
}

// Kept is what Keep has recorded beneath root, none if nothing.
func Kept(root *os.Root) (network.Files, error) {
	text, err := root.ReadFile(Record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("read the network that was kept: %w", err)
	}

	f, err := network.ParseFiles(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Record, err)
	}

	return f, nil
}

// Put makes f what networkd finds when it starts, all of it with the turn of
// one link.
func Put(node *durable.Dir, f network.Files) error {
	if len(f) == 0 {
		return node.Remove(link)
	}

	text, err := f.Encode()
	if err != nil {
		return err
	}

	sum := sha256.Sum256(text)
	set := path.Join(sets, hex.EncodeToString(sum[:6]))
	for _, dir := range []string{set, path.Dir(link)} {
		if err := node.MkdirAll(dir); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := node.WriteVolatile(path.Join(set, name), []byte(f[name]), 0o644); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}

	if _, err := node.Symlink("../loam/network/"+path.Base(set), link); err != nil {
		return fmt.Errorf("network: %w", err)
	}

	return nil
}

// InForce is what Put has put beneath root, none if nothing.
func InForce(root *os.Root) (network.Files, error) {
	entries, err := fs.ReadDir(root.FS(), link)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("read the network in force: %w", err)
	}

	f := network.Files{}
	for _, e := range entries {
		text, err := root.ReadFile(path.Join(link, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the network in force: %w", err)
		}
		f[e.Name()] = string(text)
	}

	return f, nil
}
