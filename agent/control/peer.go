package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint/fault"
)

// peerKey is the context key of a connection's error, if its peer may not make
// requests.
type peerKey struct{}

// withPeer records whether the process at the other end may make requests.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, err := peer(conn)
	if err == nil {
		err = allow(uid, uint32(os.Getuid()))
	}
	return context.WithValue(ctx, peerKey{}, err)
}

// refused returns why the peer of a request is refused, nil if it is not.
func refused(ctx context.Context) error {
	err, _ := ctx.Value(peerKey{}).(error)
	return err
}

// allow accepts root and the agent's own user.
func allow(uid, own uint32) error {
	if uid != 0 && uid != own {
		return fault.With(fmt.Errorf("user %d may not use the agent, only root", uid),
			fault.NotPermitted)
	}
	return nil
}

// peer returns the effective user of the process at the time it connected
// (SO_PEERCRED, unix(7)).
func peer(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("only a unix socket identifies its client")
	}

	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("identify the client: %w", err)
	}

	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})

	err = errors.Join(err, credErr)
	if err != nil {
		return 0, fmt.Errorf("identify the client: %w", err)
	}

	return cred.Uid, nil
}
