package ethernet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Device makes a network device with this address in the test's own namespace, and connects it.
func (h *Hub) Device(name string, address netip.Prefix) {
	h.t.Helper()
	tap, err := device(name, address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.plug(tap)
}

// Apart is Device in a namespace of its own, as on another host. Sockets that open opens are there.
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
	tap, err := device(name, address)
	if err != nil {
		return err
	}
	h.plug(tap)
	return open()
}

// device makes a tap device (Documentation/networking/tuntap.rst in Linux) that is up.
func device(name string, address netip.Prefix) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := configure(fd, name, address); err != nil {
		return nil, errors.Join(fmt.Errorf("make device %s: %w", name, err), unix.Close(fd))
	}
	// It does not block, so it belongs to Go's poller; which hears of no frame if it gets it before there is a device.
	return os.NewFile(uintptr(fd), name), nil
}

func configure(fd int, name string, address netip.Prefix) error {
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
	mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), address.Bits()).Masked().Addr()
	for _, set := range []struct {
		request int
		address netip.Addr
	}{{unix.SIOCSIFADDR, address.Addr()}, {unix.SIOCSIFNETMASK, mask}} {
		if err := request.SetInet4Addr(set.address.AsSlice()); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, uint(set.request), request); err != nil {
			return err
		}
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}
