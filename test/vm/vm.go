package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/loam-os/loam/test/child"
)

// Runner makes the command that runs a program of the tools tree.
type Runner func(ctx context.Context, name string, args ...string) *exec.Cmd

// VM is a running machine.
type VM struct {
	config  Config
	cmd     *exec.Cmd
	started time.Time
	console *Console
	shell   *Shell
	qmp     *qmp
	done    chan struct{} // closed when QEMU has ended
	err     error         // valid then
}

// Start powers the machine on. It ends with ctx.
func Start(ctx context.Context, run Runner, c Config) (*VM, error) {
	if err := c.writeCredentials(); err != nil {
		return nil, err
	}

	listeners := map[string]*net.UnixListener{}
	for _, name := range []string{consoleSocket, shellSocket, qmpSocket} {
		path := filepath.Join(c.Dir, name)
		_ = os.Remove(path) // of an earlier run in the same directory

		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return nil, fmt.Errorf("listen for QEMU: %w", err)
		}
		defer l.Close()

		listeners[name] = l
	}

	v := &VM{config: c, cmd: run(ctx, program(c.Arch), c.arguments()...), done: make(chan struct{})}
	tpm, err := c.plugTPM(ctx, run, v.cmd)
	if err != nil {
		return nil, err
	}

	var stderr bytes.Buffer
	v.cmd.Stderr = &stderr
	v.started = time.Now()
	wait, err := child.Start(v.cmd)

	for _, f := range v.cmd.ExtraFiles { // Without QEMU's end, the TPM ends, too.
		f.Close()
	}

	if err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}

	go func() {
		defer close(v.done)
		defer tpm()
		if err := wait(); err != nil {
			v.err = fmt.Errorf("QEMU: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
		}
	}()

	if err := v.connect(listeners); err != nil {
		_ = v.Kill()
		return nil, errors.Join(err, v.err)
	}

	return v, nil
}

func (c Config) writeCredentials() error {
	for name := range c.Credentials {
		err := os.WriteFile(c.credentialFile(name), []byte(c.credentialText(name)), 0o600)
		if err != nil {
			return fmt.Errorf("credential %s: %w", name, err)
		}
	}
	return nil
}

func (v *VM) connect(listeners map[string]*net.UnixListener) error {
	conns := map[string]net.Conn{}
	for name, l := range listeners {
		// QEMU connects within milliseconds, or ends.
		if err := l.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("QEMU does not connect its %s: %w", name, err)
		}
		conns[name] = conn
	}

	log, err := os.OpenFile(filepath.Join(v.config.Dir, ConsoleLog),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("console log: %w", err)
	}

	v.console = newConsole(conns[consoleSocket], log, v.started)
	v.shell = NewShell(conns[shellSocket])
	v.qmp, err = newQMP(conns[qmpSocket])

	return err
}

// Started is the time of power-on.
func (v *VM) Started() time.Time { return v.started }

// Console is the first serial port.
func (v *VM) Console() *Console { return v.console }

// Shell is the second serial port.
func (v *VM) Shell() *Shell { return v.shell }

// Done is closed when the machine is off.
func (v *VM) Done() <-chan struct{} { return v.done }

// Wait waits until the machine is off.
func (v *VM) Wait(ctx context.Context) error {
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return fmt.Errorf("machine still on: %w", ctx.Err())
	}
}

// PowerOff presses the power button.
func (v *VM) PowerOff() error { return v.qmp.command("system_powerdown", nil) }

// Command is one of the QEMU Machine Protocol, such as device_add.
func (v *VM) Command(name string, arguments map[string]any) error {
	return v.qmp.command(name, arguments)
}

// Reset presses the reset button: nothing is written any more.
func (v *VM) Reset() error { return v.qmp.command("system_reset", nil) }

// Screendump writes the screen as PNG.
func (v *VM) Screendump(file string) error {
	return v.qmp.command("screendump", map[string]any{"filename": file, "format": "png"})
}

// Kill pulls the plug and waits.
func (v *VM) Kill() error {
	if err := v.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill QEMU: %w", err)
	}
	<-v.done
	return nil
}
