package unit

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Reboot restarts the machine as an operator would (org.freedesktop.login1(5)):
// logind first waits for programs with a delay lock, such as the kubelet with
// its pods. Without logind, systemd restarts the machine at once.
func (s *Systemd) Reboot(ctx context.Context) error {
	err := rebootByLogind(ctx)
	if err == nil {
		return nil
	}
	if startErr := s.Start(ctx, "reboot.target"); startErr != nil {
		return fmt.Errorf("restart the machine: %w", errors.Join(err, startErr))
	}
	return nil
}

func rebootByLogind(ctx context.Context) error {
	bus, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connect to the system bus: %w", err)
	}
	defer bus.Close()

	logind := bus.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	err = logind.CallWithContext(ctx, "org.freedesktop.login1.Manager.Reboot", 0, false).Err
	if err != nil {
		return fmt.Errorf("ask logind: %w", err)
	}

	return nil
}
