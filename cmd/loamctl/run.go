package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/loamctl/compose"
	"github.com/loam-os/loam/hint/fault"
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

// credential names the configuration on the node: as the file on the host's side
// is meant, the node's words about it are shown with that file's name.
const credential = "credential loam.config"

type runOptions struct {
	build  buildOptions
	config string
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:               "run [CONFIG]",
		ValidArgsFunction: completeYAML,
		Short:             "Build the image, boot it in QEMU and apply a configuration",
		Long: `run checks CONFIG (a file or directory as 'loamctl osc validate' takes it, by default
examples/hello.yaml), builds the image, boots it in QEMU with firmware, hands it
CONFIG by SMBIOS, waits until its units have proven themselves or the node has
given up, and shows what the node reports. On a terminal it then leaves a shell on
the node open; otherwise it powers the node off. It needs root, as the build does,
and no KVM.`,
		Example: "  loamctl run\n  loamctl run examples/hello.yaml",
		Args:    cobra.MaximumNArgs(1),
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
	config, err := readValid(o.config)
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

	node, s, err := o.boot(ctx, b, run, machine)
	if node != nil {
		defer node.Kill()
	}
	if err != nil {
		return err
	}

	showRun(os.Stdout, s)
	if err := verdict(s, o.config); err != nil {
		return err
	}

	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		return attach(node)
	}
	return powerOff(ctx, b, node)
}

// readValid returns the text of the configuration at path, or everything that is
// wrong with it.
func readValid(path string) ([]byte, error) {
	config, err := compose.Read(path)
	if err != nil {
		return nil, err
	}
	return config.Text, invalid(path, config.Check())
}

// boot starts the machine and waits until its status has a verdict. The machine
// is nil if it did not start.
func (o runOptions) boot(
	ctx context.Context, b *builder, run vm.Runner, machine vm.Config,
) (node *vm.VM, s status.Status, err error) {
	const hint = "the console's whole text is in the log; `loam status` on the node tells " +
		"what is missing"
	name := "node boots and applies (" + machine.Accel + ")"

	err = b.steps.Do(name, hint, func(detail io.Writer) error {
		node, err = vm.Start(ctx, run, machine)
		if err != nil {
			return err
		}
		node.Console().Mirror(detail)

		wait, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		s, err = awaitVerdict(wait, node)
		return err
	})
	return node, s, err
}

// awaitVerdict returns the node's status as soon as it has one for good.
func awaitVerdict(ctx context.Context, node *vm.VM) (status.Status, error) {
	if err := node.Shell().Open(ctx); err != nil {
		return status.Status{}, err
	}

	for {
		// There is no status before the agent's first report.
		text, err := node.Shell().Run(ctx, "loam status -o json || echo '{}'")
		if err != nil {
			return status.Status{}, err
		}

		s, err := status.Parse([]byte(text))
		if err != nil {
			return status.Status{}, err
		}
		if isFinal(s) {
			return s, nil
		}

		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return s, fmt.Errorf("phase %s: %w", s.Phase, ctx.Err())
		}
	}
}

// isFinal reports whether the node is done with its first configuration: it is
// applied and its units are no longer watched, or it has failed and there is no
// earlier configuration to revert to.
func isFinal(s status.Status) bool {
	switch s.Phase {
	case status.Applied:
		return s.Change == nil
	case status.Failed:
		return s.Change == nil || s.Change.Good == ""
	}
	return false
}

// verdict returns the node's own reason why it does not run all of its
// configuration, which is in the file or directory config.
func verdict(s status.Status, config string) error {
	if e := s.Error; e != nil {
		at := *e
		if at.Document == credential {
			at.Document = config
		}
		return fault.With(errors.New("the node does not run the configuration: "+at.String()),
			fault.UnitFailed)
	}

	for _, u := range s.Units {
		if !u.Settled {
			return fault.With(fmt.Errorf("the node does not run all of the configuration: %s is %s (%s)",
				u.Name, u.Active, u.Sub), fault.UnitFailed)
		}
	}

	if s.Phase != status.Applied || len(s.Units) == 0 {
		return fault.With(fmt.Errorf("the node does not run the configuration: phase %s", s.Phase),
			fault.UnitFailed)
	}
	return nil
}

// showRun prints the table of a run.
func showRun(out io.Writer, s status.Status) {
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

	if s.AppliedAt > 0 {
		fmt.Fprintf(w, "applied\t%.1f s after the kernel's start\n", time.Duration(s.AppliedAt).Seconds())
	}
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
