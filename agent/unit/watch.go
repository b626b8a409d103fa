package unit

import (
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

// changedSignal is what systemd sends when properties of an object change.
const changedSignal = "org.freedesktop.DBus.Properties.PropertiesChanged"

// Changes says the name of each unit whose state changes, until ctx ends or the
// connection is lost; then the channel is closed. A unit that changes again
// before its name is received is said once.
func (s *Systemd) Changes(ctx context.Context) (<-chan string, error) {
	conn, err := s.dial()
	if err != nil {
		return nil, fmt.Errorf("subscribe to systemd: %w", err)
	}
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	// Only a bus knows matches. systemd itself sends everything, and may leave
	// the call without a reply.
	conn.BusObject().Call("org.freedesktop.DBus.AddMatch", dbus.FlagNoReplyExpected, "type='signal',sender='org.freedesktop.systemd1'")
	manager := conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	if err := manager.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.Subscribe", 0).Err; err != nil {
		conn.Close()
		return nil, fmt.Errorf("subscribe to systemd: %w", err)
	}
	names := make(chan string)
	go func() {
		defer close(names)
		defer conn.Close()
		forward(ctx, signals, names)
	}()
	return names, nil
}

// forward sends on the names of units that signals are about, however slow the
// receiver is. It returns when ctx ends or signals is closed.
func forward(ctx context.Context, signals <-chan *dbus.Signal, names chan<- string) {
	var waiting []string
	for {
		var next string
		var out chan<- string // nil, which never sends, while nothing waits
		if len(waiting) > 0 {
			next, out = waiting[0], names
		}
		select {
		case <-ctx.Done():
			return
		case signal, ok := <-signals:
			if !ok {
				return
			}
			if signal.Name == changedSignal && path.Dir(string(signal.Path)) == "/org/freedesktop/systemd1/unit" {
				waiting = include(waiting, unitName(signal.Path))
			}
		case out <- next:
			waiting = waiting[1:]
		}
	}
}

func include(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// unitName is the unit of an object path: its last part, in which _XX is the
// byte of that hex value (sd_bus_path_decode(3)).
func unitName(object dbus.ObjectPath) string {
	var name strings.Builder
	for escaped := path.Base(string(object)); escaped != ""; {
		if escaped[0] == '_' && len(escaped) >= 3 {
			if raw, err := hex.DecodeString(escaped[1:3]); err == nil {
				name.Write(raw)
				escaped = escaped[3:]
				continue
			}
		}
		name.WriteByte(escaped[0])
		escaped = escaped[1:]
	}
	return name.String()
}
