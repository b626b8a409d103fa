package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// none is the source of a node without one.
type none struct{}

func (none) Read(context.Context) (Document, error) {
	return Document{}, fmt.Errorf("machine.yaml names no source: %w", ErrAbsent)
}

func (none) Watch(ctx context.Context) (<-chan struct{}, error) { return never(ctx), nil }

// credential is a systemd credential. systemd sets it before the agent starts.
type credential struct{ dir, name string }

func (c credential) Read(context.Context) (Document, error) {
	name := "credential " + c.name
	if c.dir == "" {
		return Document{}, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	text, err := readFile(filepath.Join(c.dir, c.name))
	return asDocument(name, text, err)
}

func (credential) Watch(ctx context.Context) (<-chan struct{}, error) { return never(ctx), nil }

// firmwareFile is a file that QEMU passes with fw_cfg.
type firmwareFile struct{ dir, name string }

func (f firmwareFile) Read(context.Context) (Document, error) {
	name := "fw_cfg " + f.name
	if f.dir == "" {
		return Document{}, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	text, err := readFile(filepath.Join(f.dir, f.name, "raw"))
	return asDocument(name, text, err)
}

// espFile is a file of the EFI system partition, which changes only when an
// operator writes it.
type espFile struct {
	esp  ESP
	path string
}

func (e espFile) Read(context.Context) (Document, error) {
	name := "ESP file " + e.path
	if e.esp == nil {
		return Document{}, fmt.Errorf("%s: this node has no EFI system partition", name)
	}
	text, err := readESP(e.esp, e.path)
	return asDocument(name, text, err)
}

func (espFile) Watch(ctx context.Context) (<-chan struct{}, error) { return never(ctx), nil }

// asDocument makes a document of the text read from the place of that name.
func asDocument(name string, text []byte, err error) (Document, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return Document{}, fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	if err != nil {
		return Document{}, fmt.Errorf("read %s: %w", name, err)
	}
	return Document{Name: name, Text: text}, nil
}
