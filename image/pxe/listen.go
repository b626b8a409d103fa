package pxe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// interfaceOf is the name of the network device that has the address.
func interfaceOf(address netip.Addr) (string, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list network devices: %w", err)
	}

	for _, d := range devices {
		list, err := d.Addrs()
		if err != nil {
			return "", fmt.Errorf("list addresses of %s: %w", d.Name, err)
		}
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == address {
				return d.Name, nil
			}
		}
	}

	return "", hint.With(
		fault.With(
			fmt.Errorf("%s is the address of no network device here", address), fault.AddressNotFree,
		),
		"ip address shows which there are",
	)
}

// listenOn opens a UDP port for what comes by device.
func listenOn(ctx context.Context, device string, at netip.AddrPort) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bind error
		err := raw.Control(func(fd uintptr) { bind = unix.BindToDevice(int(fd), device) })
		return errors.Join(err, bind)
	}}

	conn, err := config.ListenPacket(ctx, "udp4", at.String())
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return nil, hint.With(err, "ports below 1024 need root or CAP_NET_BIND_SERVICE")
	case errors.Is(err, unix.EADDRINUSE):
		return nil, hint.With(err,
			"another DHCP or PXE server runs on this machine: ss -ulnp shows which")
	}

	return conn, err
}
