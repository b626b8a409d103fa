package plane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/config"
)

// service is what systemd reads of a unit.
type service struct {
	command []string
	// before are commands of systemd that run before it.
	before []string
	// environment is a file with more of the program's environment, "" for none.
	environment string
	// after is a command of root that runs when it is ready, "" for none.
	after string
	// credentials are files by the names of the credentials.
	credentials map[string]string
	// notify is whether the program says when it is ready (sd_notify(3)).
	notify bool
	// signal asks it to end (systemd.kill(5)).
	signal syscall.Signal
}

// process is a program that runs, or ran.
type process struct {
	cmd    *exec.Cmd
	signal syscall.Signal // asks it to end
	exited chan struct{}  // closed when it has ended, with err
	err    error
}

// parse reads the text of a unit. Its credentials are in that directory.
func parse(text, credentials string) service {
	s := service{credentials: map[string]string{}, signal: syscall.SIGTERM}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "Type":
			s.notify = value == "notify"
		case "KillSignal":
			s.signal = unix.SignalNum(value)
		case "LoadCredential":
			id, file, _ := strings.Cut(value, ":")
			s.credentials[id] = file
		case "ExecStartPre":
			s.before = append(s.before, strings.TrimLeft(value, "-+"))
		case "EnvironmentFile":
			s.environment = strings.TrimPrefix(value, "-")
		case "ExecStartPost":
			// The other one waits for the API server, as the tests do.
			if command, found := strings.CutPrefix(value, "-+"); found {
				s.after = command
			}
		case "ExecStart":
			s.command = strings.Fields(strings.ReplaceAll(value, "%d/", credentials+"/"))
		}
	}
	return s
}

// start starts the program of a unit as systemd does, and waits until it says
// that it is ready if the unit is of such a type.
func (m *machine) start(t testing.TB, desired config.Desired, unit string) {
	t.Helper()
	if err := m.try(t, desired, unit); err != nil {
		t.Fatalf("start %s: %v", unit, err)
	}
}

// try is start that returns what went wrong.
func (m *machine) try(t testing.TB, desired config.Desired, unit string) error {
	t.Helper()
	credentials := filepath.Join(m.dir, "run", unit)
	if err := os.MkdirAll(credentials, 0o700); err != nil {
		t.Fatal(err)
	}

	var s service
	for _, u := range desired.Units {
		if u.Name == unit {
			s = parse(m.moved(*u.Content), credentials)
		}
	}
	for id, file := range s.credentials {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(credentials, id), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	return m.run(t, unit, s)
}

// run starts the program of a service.
func (m *machine) run(t testing.TB, unit string, s service) error {
	t.Helper()
	log, err := os.OpenFile(m.log(unit), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	for _, before := range s.before {
		out, err := exec.Command("/bin/sh", "-c", before).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", before, err, out)
		}
	}

	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	// An abstract name belongs to the namespace of the network, as a port does.
	socket := net.UnixAddr{Name: "@" + unit, Net: "unixgram"}
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket.Name)
	if s.environment != "" {
		text, err := os.ReadFile(s.environment)
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, strings.Fields(string(text))...)
	}
	var notified *net.UnixConn
	m.net.do(func() {
		notified, err = net.ListenUnixgram(socket.Net, &socket)
		if err == nil {
			err = startAt(cmd, m.ahead)
		}
	})
	if err != nil {
		return err
	}
	defer notified.Close()

	p := &process{cmd: cmd, signal: s.signal, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	m.running[unit] = p

	if s.notify {
		err = p.awaitReady(notified)
	}
	if err != nil || s.after == "" {
		return err
	}
	out, err := exec.Command("/bin/sh", "-c", s.after).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", s.after, err, out)
	}
	return nil
}

// awaitReady waits until the process says that it is ready.
func (p *process) awaitReady(notified *net.UnixConn) error {
	if err := notified.SetReadDeadline(time.Now().Add(hostTimeout)); err != nil {
		return err
	}
	said := make(chan error, 1)
	go func() {
		var buffer [4096]byte
		for {
			n, err := notified.Read(buffer[:])
			if err != nil || strings.Contains(string(buffer[:n]), "READY=1") {
				said <- err
				return
			}
		}
	}()

	select {
	case err := <-said:
		return err
	case <-p.exited:
		return errors.Join(errors.New("it ended"), p.err)
	}
}

// ended returns an error if a process has ended.
func (m *machine) ended() error {
	for unit, p := range m.running {
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %w", unit, p.err)
		default:
		}
	}
	return nil
}
