package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/vm"
)

// machineYAML is the node that `run` makes: configured by its hypervisor, with
// a shell for this terminal.
const machineYAML = `apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: hello
source: {credential: {name: loam.config}}
debugShell: [%s]
`

// appliedLine is what the agent writes to the console (status.AppliedLine).
var appliedLine = regexp.MustCompile(`loam: applied generation (\S+) after`)

type runOptions struct {
	build  buildOptions
	config string
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [CONFIG]",
		Short: "Build the image, boot it in QEMU and apply a configuration",
		Long: `run builds the image, boots it in QEMU with firmware, hands it CONFIG (an
OperatingSystemConfig; examples/hello.yaml if none is said) by SMBIOS, waits until
the node has applied it, and shows what the node reports. On a terminal it then
leaves a shell on the node open; otherwise it powers the node off. It needs root,
as the build does, and no KVM.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.config = filepath.Join(o.build.source, "examples/hello.yaml")
			if len(args) == 1 {
				o.config = args[0]
			}
			return o.run(cmd.Context())
		},
	}

	o.build.flags(cmd.Flags())
	return cmd
}

func (o runOptions) run(ctx context.Context) error {
	config, err := os.ReadFile(o.config)
	if err != nil {
		return err
	}

	b, err := o.build.open(ctx)
	if err != nil {
		return err
	}
	defer b.steps.Close()

	result, err := b.build(ctx)
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "loam")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	machine, run, err := b.machine(ctx, result, dir)
	if err != nil {
		return err
	}

	machine.Credentials = map[string]string{
		"loam.machine": fmt.Sprintf(machineYAML, vm.ShellTTY(machine.Arch)),
		"loam.config":  string(config),
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var node *vm.VM
	var applied vm.Line
	hint := "the console's whole text is in the log; `loam status` on the node tells " +
		"what is missing"
	err = b.steps.Do(
		"node boots and applies ("+machine.Accel+")",
		hint,
		func(detail io.Writer) error {
			node, err = vm.Start(ctx, run, machine)
			if err != nil {
				return err
			}

			node.Console().Mirror(detail)
			wait, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()

			applied, _, _, err = node.Console().Expect(wait, 0, appliedLine)

			return err
		},
	)
	if err != nil {
		return err
	}

	defer node.Kill()
	s, err := nodeStatus(ctx, node)
	if err != nil {
		return err
	}

	show(os.Stdout, s, applied.At)
	if !settled(s) {
		return errors.New("the node does not run all of the configuration")
	}
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		return attach(node)
	}

	return powerOff(ctx, b, node)
}

func nodeStatus(ctx context.Context, node *vm.VM) (status.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := node.Shell().Open(ctx); err != nil {
		return status.Status{}, err
	}

	text, err := node.Shell().Run(ctx, "loam status -o json")
	if err != nil {
		return status.Status{}, err
	}

	return status.Parse([]byte(text))
}

func settled(s status.Status) bool {
	for _, u := range s.Units {
		if !u.Settled {
			return false
		}
	}
	return s.Phase == status.Applied && len(s.Units) > 0
}

// show prints the table of a run.
func show(out io.Writer, s status.Status, sincePowerOn time.Duration) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\nimage\t%s %s\n", s.ImageID, s.ImageVersion)
	fmt.Fprintf(w, "slot\t%s\n", s.Slot)
	fmt.Fprintf(w, "root hash\t%s\n", s.RootHash)
	fmt.Fprintf(w, "kernel\t%s\n", s.Kernel)
	fmt.Fprintf(w, "generation\t%s (%s)\n", s.Generation, s.Phase)
	fmt.Fprintf(w, "files\t%d\n", s.Files)

	for i, u := range s.Units {
		label := ""
		if i == 0 {
			label = "units"
		}
		fmt.Fprintf(w, "%s\t%s\t%s (%s)\n", label, u.Name, u.Active, u.Sub)
	}

	if len(s.DebugShells) > 0 {
		fmt.Fprintf(w, "debug shell\t%s\n", strings.Join(s.DebugShells, " "))
	}

	fmt.Fprintf(w, "applied\t%.1f s after power-on\n", sincePowerOn.Seconds())
	_ = w.Flush()
}

// attach connects the terminal until Ctrl-].
func attach(node *vm.VM) error {
	const quit = 0x1d
	fmt.Print(`
This is a shell on the node. Press Ctrl-] to switch it off and leave.
Try:  loam status
      systemctl status hello
      cat /etc/hello/greeting; ls -l /etc/hello
      findmnt -o TARGET,SOURCE,FSTYPE,OPTIONS / /etc /var

`)

	fd := int(os.Stdin.Fd())
	saved, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer term.Restore(fd, saved)

	return node.Shell().Attach(os.Stdin, os.Stdout, quit)
}

func powerOff(ctx context.Context, b *builder, node *vm.VM) error {
	return b.steps.Do("node powers off", "", func(io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if _, err := io.WriteString(node.Shell(), "systemctl poweroff\n"); err != nil {
			return err
		}
		return node.Wait(ctx)
	})
}
