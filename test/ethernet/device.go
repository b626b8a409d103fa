package ethernet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Device makes a network device with these addresses in the test's own
// namespace, and connects it.
func (h *Hub) Device(name string, addresses ...netip.Prefix) {
	h.t.Helper()
	tap, err := device(name, addresses)
	if err != nil {
		h.t.Fatal(err)
	}
	h.plug(tap)
}

// Apart is Device in a namespace of its own, as on another host. Sockets that
// open opens are there.
func (h *Hub) Apart(name string, address netip.Prefix, open func() error) {
	h.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never back: the thread ends with the goroutine
		done <- h.apart(name, address, open)
	}()
	if err := <-done; err != nil {
		h.t.Fatal(err)
	}
}

func (h *Hub) apart(name string, address netip.Prefix, open func() error) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network of %s: %w", name, err)
	}

	tap, err := device(name, []netip.Prefix{address})
	if err != nil {
		return err
	}

	h.plug(tap)
	return open()
}

// Listen opens a UDP port for what comes by a device, in the namespace of the
// caller. What it sends goes out there, to all hosts, too, which no route leads
// to.
func Listen(ctx context.Context, name string, port uint16) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bind error
		err := raw.Control(func(fd uintptr) { bind = unix.BindToDevice(int(fd), name) })
		return errors.Join(err, bind)
	}}
	return config.ListenPacket(ctx, "udp4",
		netip.AddrPortFrom(netip.IPv4Unspecified(), port).String())
}

// device makes a tap device (Documentation/networking/tuntap.rst in Linux) that
// is up.
func device(name string, addresses []netip.Prefix) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := configure(fd, name, addresses); err != nil {
		return nil, errors.Join(fmt.Errorf("make device %s: %w", name, err), unix.Close(fd))
	}
	// It does not block, so it belongs to Go's poller; which hears of no frame
	// if it gets it before there is a device.
	return os.NewFile(uintptr(fd), name), nil
}

func configure(fd int, name string, addresses []netip.Prefix) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}

	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}

	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)

	for i, address := range addresses {
		label := name
		if i > 0 {
			// netdevice(7): another address of the same device
			label = fmt.Sprintf("%s:%d", name, i)
		}
		if err := assign(socket, label, address); err != nil {
			return fmt.Errorf("address %s: %w", address, err)
		}
	}

	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

func assign(socket int, label string, address netip.Prefix) error {
	request, err := unix.NewIfreq(label)
	if err != nil {
		return err
	}

	mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}),
		address.Bits()).Masked().Addr()
	if err := request.SetInet4Addr(address.Addr().AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, request); err != nil {
		return err
	}
	if err := request.SetInet4Addr(mask.AsSlice()); err != nil {
		return err
	}

	return unix.IoctlIfreq(socket, unix.SIOCSIFNETMASK, request)
}
