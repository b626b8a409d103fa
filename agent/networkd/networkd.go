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

// Record is where the last network of machine.yaml is stored, relative to the
// root directory. It keeps a node reachable when the document is gone or
// unreadable.
const Record = "var/lib/loam/network.json"

// Unit is the unit that reads the files.
const Unit = "systemd-networkd.service"

// link is network.Dir, and sets the directory it points into: one directory for
// each set of files.
var link, sets = strings.TrimPrefix(network.Dir, "/"), "run/loam/network"

// Keep records f for the next boot; no files mean the image's own.
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

// Kept returns what Keep has recorded beneath root, or no files.
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

// Put makes f the files that networkd finds when it starts. Renaming one link
// replaces all of them at once.
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

// InForce returns what Put has written beneath root, or no files.
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
