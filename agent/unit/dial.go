package unit

import (
	"bufio"
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
func dial(ctx context.Context, socket string, opt dbus.ConnOption) (*dbus.Conn, error) {
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}

	conn, err := dbus.NewConn(buffered{stream, bufio.NewReaderSize(stream, bufferSize)}, opt)
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

// bufferSize has room for everything that systemd sends about a job.
const bufferSize = 64 << 10

// buffered reads a stream in large pieces. godbus reads each number and text of
// a message separately, and from a socket that it opened itself each message in
// three pieces.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

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
