package unit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// PrivateSocket is where systemd itself answers, for root only and without a
// message bus.
const PrivateSocket = "/run/systemd/private"

// Systemd is a connection to a running systemd.
type Systemd struct {
	conn *systemd.Conn
	// dial opens a further connection to the same systemd.
	dial func() (*dbus.Conn, error)
}

// Connect connects to the systemd that listens on socket, or, where that is
// not there, to the one on the system bus.
func Connect(ctx context.Context, socket string) (*Systemd, error) {
	dial := func() (*dbus.Conn, error) { return dial(ctx, socket) }
	conn, err := systemd.NewConnection(dial)
	if err == nil {
		return &Systemd{conn, dial}, nil
	}
	dial = func() (*dbus.Conn, error) { return dbus.ConnectSystemBus() }
	conn, busErr := systemd.NewConnection(dial)
	if busErr != nil {
		return nil, fmt.Errorf("connect to systemd: %w", errors.Join(err, busErr))
	}
	return &Systemd{conn, dial}, nil
}

// dial opens the private socket. The peer is systemd and no bus, so there is
// no Hello; who we are is told by the kernel.
func dial(ctx context.Context, socket string) (*dbus.Conn, error) {
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn, err := dbus.NewConn(stream)
	if err != nil {
		stream.Close()
		return nil, err
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("authenticate at %s: %w", socket, err)
	}
	return conn, nil
}

// Close ends the connection.
func (s *Systemd) Close() { s.conn.Close() }

// Reload makes systemd read its units again.
func (s *Systemd) Reload(ctx context.Context) error {
	if err := s.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload systemd: %w", err)
	}
	return nil
}

// Start starts a unit and waits until its job is finished. A job with a result
// other than "done" is a *JobError.
func (s *Systemd) Start(ctx context.Context, name string) error {
	return s.job(ctx, "start", name, s.conn.StartUnitContext)
}

// Stop is Start for stopping.
func (s *Systemd) Stop(ctx context.Context, name string) error {
	return s.job(ctx, "stop", name, s.conn.StopUnitContext)
}

// Restart is Start for restarting; a unit that is down is started.
func (s *Systemd) Restart(ctx context.Context, name string) error {
	return s.job(ctx, "restart", name, s.conn.RestartUnitContext)
}

// ReloadUnit is Start for reloading a unit that is up.
func (s *Systemd) ReloadUnit(ctx context.Context, name string) error {
	return s.job(ctx, "reload", name, s.conn.ReloadUnitContext)
}

// ResetFailed makes systemd forget that a unit failed, and how often it was
// started of late: what has been corrected starts at once. It is no error if
// systemd does not know the unit.
func (s *Systemd) ResetFailed(ctx context.Context, name string) {
	_ = s.conn.ResetFailedUnitContext(ctx, name) // The start says what is wrong.
}

// enqueue is the form of go-systemd's methods that make a job.
type enqueue func(ctx context.Context, name, mode string, result chan<- string) (int, error)

func (s *Systemd) job(ctx context.Context, verb, name string, enqueue enqueue) error {
	result := make(chan string, 1)
	if _, err := enqueue(ctx, name, "replace", result); err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s %s: waiting for the job: %w", verb, name, ctx.Err())
	case got := <-result:
		if got == "done" {
			return nil
		}
		state, err := s.show(ctx, name)
		return errors.Join(&JobError{Verb: verb, Unit: name, Result: got, State: state}, err)
	}
}

// Ready tells the systemd that started this process that it is up
// (sd_notify(3)); without one it does nothing.
func Ready() error {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
