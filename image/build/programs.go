package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/loam-os/loam/image/floor"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/sbom"
	"github.com/loam-os/loam/image/step"
)

// programs are the files of the programs of the node while a build goes on.
type programs struct{ loam, init, live string }

func (p programs) all() []string { return []string{p.loam, p.init, p.live} }

func (p programs) remove() error {
	var errs []error
	for _, file := range p.all() {
		errs = append(errs, os.Remove(file))
	}
	return errors.Join(errs...)
}

// compiler builds programs of the project.
type compiler struct {
	source, arch string
	flags        []string // added to `go build`
	steps        *step.Log
}

// compiler returns what builds the programs of the node.
func (b *Build) compiler() compiler {
	return compiler{
		source: b.Source,
		arch:   b.Plan.Spec.Arch,
		flags:  b.BuildFlags,
		steps:  b.Steps,
	}
}

// programs builds the programs of the node in dir.
func (c compiler) programs(ctx context.Context, dir string) (programs, error) {
	p := programs{
		loam: filepath.Join(dir, "loam"),
		init: filepath.Join(dir, "init"),
		live: filepath.Join(dir, "init-live"),
	}

	return p, c.steps.Do("loam, init (go build)", "", func(w io.Writer) error {
		var errs []error
		for _, file := range p.all() {
			errs = append(errs, c.compile(ctx, file, w))
		}
		return errors.Join(errs...)
	})
}

// checkFloors refuses programs with modules, or by a Go, that an image must not have.
func checkFloors(tree rootfs.Root, p programs) error {
	others, err := tree.GoPrograms()
	if err != nil {
		return err
	}
	modules, err := sbom.Modules(append(p.all(), others...))
	if err != nil {
		return err
	}
	return floor.Check(modules)
}

// compile builds the program of the node with the name of file. It carries no
// commit: the same sources give the same bytes. Nor does it carry information for
// debuggers, with which the compiler takes an eighth longer.
func (c compiler) compile(ctx context.Context, file string, w io.Writer) error {
	name := filepath.Base(file)
	args := append([]string{
		"build", "-trimpath", "-buildvcs=false",
		"-gcflags=all=-dwarf=false", "-ldflags=-s -w -buildid=", "-o", file,
	}, c.flags...)

	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = c.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+c.arch,
		"GOAMD64=v1", "GOFLAGS=")
	cmd.Stdout = w
	cmd.Stderr = w

	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w", name, err)
	}

	return nil
}
