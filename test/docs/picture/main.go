// Command picture makes the two pictures of README: the screen of a node that
// has applied examples/hello.yaml, and what `make run` prints. `make pictures`
// runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/vm"
)

// machineYAML is the node in the picture.
const machineYAML = `apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: hello
source: {credential: {name: loam.config}}
`

// appliedLine is what the agent writes to the consoles (status.AppliedLine).
var appliedLine = regexp.MustCompile(`loam: applied generation (\S+) after`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	session := flag.String("run", "", "file with what `make run` has printed")
	out := flag.String("out", "docs/pictures", "directory of the pictures")
	flag.Parse()
	if err := draw(ctx, *session, *out); err != nil {
		fmt.Fprintf(os.Stderr, "picture: %v\n", err)
		os.Exit(1)
	}
}

func draw(ctx context.Context, session, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if session != "" {
		text, err := os.ReadFile(session)
		if err != nil {
			return err
		}

		picture := terminal("make run", string(text))
		if err := os.WriteFile(filepath.Join(out, "run.svg"), picture, 0o644); err != nil {
			return err
		}
	}

	return console(ctx, filepath.Join(out, "console.png"))
}

// console writes the screen of a node, a moment after it has applied its
// configuration.
func console(ctx context.Context, file string) error {
	build, tree := os.Getenv("LOAM_BUILD"), tools.Tree{Dir: os.Getenv("LOAM_TOOLS_TREE")}
	if build == "" || tree.Dir == "" {
		return errors.New("LOAM_BUILD or LOAM_TOOLS_TREE is not set\nhint: make pictures")
	}
	text, err := os.ReadFile(filepath.Join(build, "manifest.json"))
	if err != nil {
		return err
	}
	m, err := manifest.Decode(text)
	if err != nil {
		return err
	}
	config, err := os.ReadFile("examples/hello.yaml")
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "loam")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	run := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return tree.Command(ctx, []string{dir, build}, name, args...)
	}
	images, err := filepath.Glob(filepath.Join(build, "*_x86-64.raw"))
	if err != nil || len(images) != 1 {
		return fmt.Errorf("%s: %d disk images, want one", build, len(images))
	}
	machine, err := vm.Prepare(ctx, tree.Dir, run, vm.Image{
		Arch:       m.Arch,
		Base:       images[0],
		DiskSize:   "8G",
		SectorSize: m.SectorSize,
	}, dir)
	if err != nil {
		return err
	}

	machine.Credentials = map[string]string{
		"loam.machine": machineYAML,
		"loam.config":  string(config),
	}

	// The firmware's frame buffer is what every kernel can draw to.
	machine.Arguments = append(machine.Arguments, "-device", "VGA")
	return photograph(ctx, run, machine, file)
}

// photograph starts a machine and writes its screen as PNG.
func photograph(ctx context.Context, run vm.Runner, machine vm.Config, file string) error {
	node, err := vm.Start(ctx, run, machine)
	if err != nil {
		return err
	}
	defer node.Kill()
	wait, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if _, _, _, err := node.Console().Expect(wait, 0, appliedLine); err != nil {
		return err
	}

	// The table comes after the line; QEMU draws it within a frame.
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	screen := filepath.Join(machine.Dir, "console.png")
	if err := node.Screendump(screen); err != nil {
		return err
	}
	return crop(screen, file)
}
