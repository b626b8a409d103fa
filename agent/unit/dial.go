package unit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

// dial opens the private socket. The peer is systemd and not a bus, so there is
// no Hello, and the kernel authenticates the caller.
func dial(ctx context.Context, socket string, signals *signals) (*dbus.Conn, error) {
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}

	conn, err := dbus.NewConn(newFilter(stream, signals.handle), dbus.WithSignalHandler(signals))
	if err != nil {
		stream.Close()
		return nil, err
	}

	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("authenticate at %s: %w", socket, err)
	}

	if err := awake(ctx, conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}

	return conn, nil
}

const (
	pings     = 500
	pingAgain = 10 * time.Millisecond
)

// awake waits until systemd answers. sd-bus may read a message that directly
// follows the authentication together with it, and looks at the message only
// when more data comes: a first call can wait for its reply until there is a
// second.
func awake(ctx context.Context, conn *dbus.Conn) error {
	answers := make(chan *dbus.Call, pings)
	peer := conn.Object(service, rootPath)
	for range pings {
		peer.GoWithContext(ctx, "org.freedesktop.DBus.Peer.Ping", 0, answers)
		select {
		case call := <-answers:
			var refused dbus.Error
			if errors.As(call.Err, &refused) {
				return nil // An error is an answer, too.
			}
			return call.Err
		case <-time.After(pingAgain):
		}
	}

	return errors.New("no answer")
}
