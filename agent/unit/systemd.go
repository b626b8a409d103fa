package unit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/godbus/dbus/v5"

	"github.com/loam-os/loam/hint/fault"
)

// PrivateSocket is where systemd itself answers, to root only and without a
// message bus.
const PrivateSocket = "/run/systemd/private"

// Names of systemd on D-Bus (org.freedesktop.systemd1(5)).
const (
	service   = "org.freedesktop.systemd1"
	rootPath  = dbus.ObjectPath("/org/freedesktop/systemd1")
	unitsPath = "/org/freedesktop/systemd1/unit"
	manager   = service + ".Manager"
)

// Systemd is a connection to a running systemd, for both calls and signals:
// systemd sends every signal to each connection of its private socket.
type Systemd struct {
	conn    *dbus.Conn
	manager dbus.BusObject
	signals *signals
}

// Connect connects to the systemd that listens on socket or, if the socket does
// not exist, to the one on the system bus.
func Connect(ctx context.Context, socket string) (*Systemd, error) {
	s, err := connect(ctx, func(signals *signals) (*dbus.Conn, error) {
		return dial(ctx, socket, signals)
	})
	if err == nil {
		return s, nil
	}

	s, busErr := connect(ctx, connectBus)
	if busErr != nil {
		return nil, fault.With(
			fmt.Errorf("connect to systemd: %w; by the system bus: %w", err, busErr),
			fault.SystemdUnreachable,
		)
	}

	return s, nil
}

// connect opens a connection and subscribes to systemd's signals.
func connect(
	ctx context.Context, open func(*signals) (*dbus.Conn, error),
) (*Systemd, error) {
	signals := newSignals()
	conn, err := open(signals)
	if err != nil {
		return nil, err
	}

	s := &Systemd{conn: conn, manager: conn.Object(service, rootPath), signals: signals}
	if err := s.manager.CallWithContext(ctx, manager+".Subscribe", 0).Err; err != nil {
		conn.Close()
		return nil, fmt.Errorf("subscribe to systemd: %w", err)
	}

	return s, nil
}

// connectBus connects to the system bus, which forwards only the signals it is
// asked for.
func connectBus(signals *signals) (*dbus.Conn, error) {
	conn, err := dbus.ConnectSystemBus(dbus.WithSignalHandler(signals))
	if err != nil {
		return nil, err
	}
	if err := conn.AddMatchSignal(dbus.WithMatchSender(service)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Close closes the connection.
func (s *Systemd) Close() { s.conn.Close() }

// Reload makes systemd read its units again.
func (s *Systemd) Reload(ctx context.Context) error {
	if err := s.manager.CallWithContext(ctx, manager+".Reload", 0).Err; err != nil {
		return fmt.Errorf("reload systemd: %w", err)
	}
	return nil
}

// Start starts a unit and waits for the end of its job. A job with a result
// other than "done" is a *JobError.
func (s *Systemd) Start(ctx context.Context, name string) error {
	return s.job(ctx, "start", "StartUnit", name)
}

// Stop is Start for stopping.
func (s *Systemd) Stop(ctx context.Context, name string) error {
	return s.job(ctx, "stop", "StopUnit", name)
}

// Restart is Start for restarting; a unit that is down is started.
func (s *Systemd) Restart(ctx context.Context, name string) error {
	return s.job(ctx, "restart", "RestartUnit", name)
}

// ReloadUnit is Start for reloading a unit that is up.
func (s *Systemd) ReloadUnit(ctx context.Context, name string) error {
	return s.job(ctx, "reload", "ReloadUnit", name)
}

// ResetFailed makes systemd forget that a unit failed and how often it was
// started recently, so that a corrected unit starts at once. It is not an error
// if systemd does not know the unit. systemd handles the calls of a connection
// in order, so the start need not wait for a reply.
func (s *Systemd) ResetFailed(_ context.Context, name string) {
	// The start reports the error.
	s.manager.Go(manager+".ResetFailedUnit", dbus.FlagNoReplyExpected, nil, name)
}

// job creates a job by the Manager's method and waits until it has ended.
func (s *Systemd) job(ctx context.Context, verb, method, name string) error {
	jobs := s.signals.expectJob()
	defer jobs.forget()
	asked := time.Now()
	var job dbus.ObjectPath
	err := s.manager.CallWithContext(ctx, manager+"."+method, 0, name, "replace").Store(&job)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}

	result, err := jobs.await(ctx, job)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return s.unended(ctx, &JobError{
			Verb:  verb,
			Unit:  name,
			After: time.Since(asked).Round(time.Second),
			Err:   err,
		})
	case err != nil:
		return fmt.Errorf("%s %s: waiting for the job: %w", verb, name, err)
	case result == "done":
		return nil
	}

	failed := &JobError{Verb: verb, Unit: name, Result: result}
	states, err := s.Show(ctx, []string{name})
	if err == nil {
		failed.State = states[0]
	}

	return errors.Join(failed, err)
}

// showWait limits how long an error waits for the state of its unit.
const showWait = 5 * time.Second

// unended adds the state of the unit, if systemd answers, to the error of a job
// that has not ended.
func (s *Systemd) unended(ctx context.Context, e *JobError) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showWait)
	defer cancel()
	if states, err := s.Show(ctx, []string{e.Unit}); err == nil {
		e.State = states[0]
	}
	return e
}

// Alive notifies the systemd that started this process that it is well, for
// WatchdogSec= (sd_notify(3)). Without systemd it does nothing.
func Alive() error {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// Ready notifies the systemd that started this process that it is up
// (sd_notify(3)). Without systemd it does nothing.
func Ready() error {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
