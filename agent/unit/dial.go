package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

// dial opens the private socket. The peer is systemd and no bus, so there is
// no Hello; who we are is told by the kernel. The address has godbus read a
// message in three pieces; from a stream of our own it would be one for each
// number and text in it.
func dial(ctx context.Context, socket string, opt dbus.ConnOption) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(socket), opt)
	if err != nil {
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

// awake waits until systemd answers. sd-bus reads what comes right behind the end
// of the authentication together with that, and looks at it only when more
// comes: a first call can wait for its reply until there is a second one.
func awake(ctx context.Context, conn *dbus.Conn) error {
	answers := make(chan *dbus.Call, pings)
	peer := conn.Object(service, rootPath)
	for range pings {
		peer.GoWithContext(ctx, "org.freedesktop.DBus.Peer.Ping", 0, answers)
		select {
		case call := <-answers:
			var refused dbus.Error
			if errors.As(call.Err, &refused) {
				return nil // That is an answer, too.
			}
			return call.Err
		case <-time.After(pingAgain):
		}
	}
	return errors.New("no answer")
}
