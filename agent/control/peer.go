package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peerKey is where a connection's context has why its peer may not ask, if so.
type peerKey struct{}

// withPeer notes whether the process at the other end may ask.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, err := peer(conn)
	if err == nil {
		err = allow(uid, uint32(os.Getuid()))
	}
	return context.WithValue(ctx, peerKey{}, err)
}

// refused is why the peer of a request may not ask, nil if it may.
func refused(ctx context.Context) error {
	err, _ := ctx.Value(peerKey{}).(error)
	return err
}

// allow lets root ask, and whom the agent runs as.
func allow(uid, own uint32) error {
	if uid != 0 && uid != own {
		return fmt.Errorf("user %d may not ask the agent, only root", uid)
	}
	return nil
}

// peer is the effective user of the process that connected, at that time
// (SO_PEERCRED, unix(7)).
func peer(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("only a unix socket tells who asks the agent")
	}

	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find out who asks: %w", err)
	}

	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})

	err = errors.Join(err, credErr)
	if err != nil {
		return 0, fmt.Errorf("find out who asks: %w", err)
	}

	return cred.Uid, nil
}
