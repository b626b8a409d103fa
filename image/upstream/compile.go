package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/image/tools"
)

// goTool is the go command of this machine.
type goTool struct {
	version string

	// root is the directory of Go itself, modules and cache are its directories
	// of modules and of GOMODCACHE and GOCACHE.
	root, modules, cache string
}

// findGo asks the go command where its directories are. The answer holds in
// the directories of all modules here: none wants another version of Go than
// Loam does.
func findGo(ctx context.Context) (goTool, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "-json",
		"GOVERSION", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		return goTool{}, fmt.Errorf("go env: %w", err)
	}

	var env map[string]string
	if err := json.Unmarshal(out, &env); err != nil {
		return goTool{}, fmt.Errorf("go env: %w", err)
	}

	return goTool{
		version: env["GOVERSION"],
		root:    env["GOROOT"],
		modules: env["GOMODCACHE"],
		cache:   env["GOCACHE"],
	}, nil
}

// module is what `go list -m` says of a module.
type module struct{ Version, Dir string }

// module downloads the module with that path, of the version that the module in
// the directory source requires.
func (g goTool) module(ctx context.Context, source, path string) (module, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", path)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")

	out, err := cmd.Output()
	if err != nil {
		return module{}, fmt.Errorf("go mod download %s: %w\n%s", path, err, out)
	}

	var m module
	if err := json.Unmarshal(out, &m); err != nil {
		return module{}, fmt.Errorf("go mod download %s: %w", path, err)
	}

	return m, nil
}

// compilation is one program to build.
type compilation struct {
	// source is the directory of the Go module to build in, target the file of
	// the program.
	source, target string

	// arch as Go names it, flags of go build, and the path of the package.
	arch  string
	flags []string
	pkg   string

	log io.Writer
}

func (c compilation) args(target string) []string {
	return slices.Concat([]string{"build", "-o", target}, c.flags, []string{c.pkg})
}

// environment is what decides the program, beside flags.
func (c compilation) environment(cgo string) []string {
	return []string{
		"CGO_ENABLED=" + cgo, "GOOS=linux", "GOARCH=" + c.arch, "GOAMD64=v1", "GOFLAGS=",
		"GOWORK=off",
	}
}

// compile builds a program that is all Go.
func (g goTool) compile(ctx context.Context, c compilation) error {
	cmd := exec.CommandContext(ctx, "go", c.args(c.target)...)
	cmd.Dir = c.source
	cmd.Env = append(os.Environ(), c.environment("0")...)
	cmd.Stdout = c.log
	cmd.Stderr = c.log
	return cmd.Run()
}

// compilers are the names that Debian has for an architecture's compiler and
// for the directories of its libraries.
var compilers = map[string]string{
	"amd64": "x86_64-linux-gnu",
	"arm64": "aarch64-linux-gnu",
}

// compileC returns a function that builds a program with C in it. Go runs
// inside the tools tree, whose compiler, C library and libseccomp it uses, so
// that every host makes the same program; the paths there are the same on every
// host, too.
func (g goTool) compileC(t tools.Tree) func(context.Context, compilation) error {
	return func(ctx context.Context, c compilation) error {
		if err := g.fetch(ctx, c); err != nil {
			return err
		}

		triplet := compilers[c.arch]
		env := append(c.environment("1"),
			"PATH=/usr/bin:/usr/sbin", "HOME=/root", "GOROOT=/go/root", "GOMODCACHE=/go/mod",
			"GOCACHE=/go/cache", "GOTOOLCHAIN=local", "GOPROXY=off", "GOTMPDIR=/tmp",
			"CC="+triplet+"-gcc",
			"PKG_CONFIG_LIBDIR=/usr/lib/"+triplet+"/pkgconfig:/usr/share/pkgconfig")

		mounts := []tools.Mount{
			{Host: g.root, Path: "/go/root"},
			{Host: g.modules, Path: "/go/mod"},
			{Host: g.cache, Path: "/go/cache"},
			{Host: c.source, Path: "/go/src"},
			{Host: filepath.Dir(c.target), Path: "/go/out"},
		}

		args := slices.Concat([]string{"--chdir=/go/src"}, env, []string{"/go/root/bin/go"},
			c.args("/go/out/"+filepath.Base(c.target)))

		cmd := t.CommandWith(ctx, mounts, "env", args...)
		cmd.Stdout = c.log
		cmd.Stderr = c.log
		return cmd.Run()
	}
}

// fetch downloads the modules that a program is made of, as the tools tree has
// neither this machine's proxy nor its certificates.
func (g goTool) fetch(ctx context.Context, c compilation) error {
	args := []string{"list", "-deps", "-mod=readonly"}
	for _, flag := range c.flags {
		if strings.HasPrefix(flag, "-tags=") {
			args = append(args, flag)
		}
	}

	cmd := exec.CommandContext(ctx, "go", append(args, c.pkg)...)
	cmd.Dir = c.source
	cmd.Env = append(os.Environ(), c.environment("1")...)

	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}

	return nil
}
