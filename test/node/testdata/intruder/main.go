// Command intruder is a pod without privileges that tries what only code with a
// hole would let it do. It prints what each call answered. /modules.alias is that
// of the kernel.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	aliases, err := os.ReadFile("/modules.alias")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for line := range strings.Lines(string(aliases)) {
		if words := strings.Fields(line); len(words) == 3 {
			ask(words[1])
		}
	}
	for family := range 64 {
		open(family, unix.SOCK_DGRAM, 0)
		open(family, unix.SOCK_RAW, 0)
	}
	for protocol := range unix.NETLINK_CRYPTO + 10 {
		open(unix.AF_NETLINK, unix.SOCK_RAW, protocol)
	}
	for _, name := range []string{"bbr", "cdg", "dctcp", "westwood"} {
		option(unix.TCP_CONGESTION, name)
	}
	for _, name := range []string{"tls", "smc", "espintcp"} {
		option(unix.TCP_ULP, name)
	}
	disciplines()

	for _, attempt := range []struct {
		name string
		try  func() error
	}{
		{"user namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"io_uring", ring},
		{"bpf", bpf},
		{"perf", perf},
		{"mount", func() error { return unix.Mount("none", "/", "tmpfs", 0, "") }},
		{"sysrq", sysrq},
		{"keyring", keyring},
		{"seccomp", seccomp},
	} {
		fmt.Printf("%s: %s\n", attempt.name, word(attempt.try()))
	}
	fmt.Println("done")
	time.Sleep(1 << 62)
}

// word is the name of an errno.
func word(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "allowed"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// ask has the kernel ask for a module by one of its aliases, as far as a process
// without privileges can.
func ask(alias string) {
	if rest, ok := strings.CutPrefix(alias, "fs-"); ok {
		fd, err := unix.Fsopen(rest, 0)
		if err == nil {
			unix.Close(fd)
		}
		_ = unix.Mount("none", "/", rest, 0, "")
		return
	}
	if rest, ok := strings.CutPrefix(alias, "crypto-"); ok {
		cipher(rest)
		return
	}

	// net-pf-FAMILY[-proto-PROTOCOL[-type-TYPE][-family-NAME]]
	words := strings.Split(alias, "-")
	if len(words) < 3 || words[0] != "net" || words[1] != "pf" {
		return
	}
	family, _ := strconv.Atoi(words[2])
	protocol := 0
	if len(words) > 4 {
		protocol, _ = strconv.Atoi(words[4])
	}

	switch {
	case family == unix.AF_NETLINK && protocol == unix.NETLINK_GENERIC && len(words) > 6:
		generic(strings.Join(words[6:], "-"))
	case family == unix.AF_NETLINK && protocol == unix.NETLINK_SOCK_DIAG && len(words) > 6:
		of, _ := strconv.Atoi(words[6])
		for _, kind := range []int{0, unix.IPPROTO_TCP} {
			if len(words) > 7 {
				kind, _ = strconv.Atoi(words[7])
			}
			diagnose(byte(of), kind)
		}
	default:
		for _, kind := range []int{
			unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_RDM, unix.SOCK_SEQPACKET,
		} {
			open(family, kind, protocol)
		}
	}
}

func open(family, kind, protocol int) {
	if fd, err := socket(family, kind, protocol); err == nil {
		unix.Close(fd)
	}
}

// lacking are the families that the kernel has no module for. It looks for one, by a
// process, each time that it is asked; the first time says all.
var lacking = map[int]bool{}

func socket(family, kind, protocol int) (int, error) {
	if lacking[family] {
		return 0, unix.EAFNOSUPPORT
	}
	fd, err := unix.Socket(family, kind, protocol)
	lacking[family] = errors.Is(err, unix.EAFNOSUPPORT)
	return fd, err
}

// cipher asks for an algorithm, which needs a socket of AF_ALG.
func cipher(name string) {
	fd, err := socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, kind := range []string{"hash", "skcipher", "aead", "rng"} {
		_ = unix.Bind(fd, &unix.SockaddrALG{Type: kind, Name: name})
	}
}

// send sends a message of netlink(7).
func send(protocol int, kind uint16, body []byte) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol)
	if err != nil {
		return
	}
	defer unix.Close(fd)

	message := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	header := (*unix.NlMsghdr)(unsafe.Pointer(&message[0]))
	header.Len = uint32(unix.NLMSG_HDRLEN + len(body))
	header.Type = kind
	header.Flags = unix.NLM_F_REQUEST | unix.NLM_F_ACK
	_ = unix.Sendto(fd, append(message, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// generic asks for a family of generic netlink by its name.
func generic(name string) {
	length := unix.NLA_HDRLEN + len(name) + 1
	body := []byte{
		unix.CTRL_CMD_GETFAMILY, 1, 0, 0,
		byte(length), 0, unix.CTRL_ATTR_FAMILY_NAME, 0,
	}
	body = append(body, name...)
	body = append(body, make([]byte, 4-len(name)%4)...)
	send(unix.NETLINK_GENERIC, unix.GENL_ID_CTRL, body)
}

// diagnose asks for the sockets of a family (sock_diag(7)).
func diagnose(family byte, protocol int) {
	const byFamily = 20
	body := make([]byte, 56)
	body[0] = family
	body[1] = byte(protocol)
	send(unix.NETLINK_SOCK_DIAG, byFamily, body)
}

func option(name int, value string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, name, value)
}

// disciplines asks for each line discipline of a terminal.
func disciplines() {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for i := range 31 {
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSETD, i)
	}
}

func ring() error {
	var parameters [120]byte
	return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
}

// bpf makes a map (bpf(2)).
func bpf() error {
	const array = 2
	attributes := [12]uint32{array, 4, 4, 1}
	return call(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attributes)),
		unsafe.Sizeof(attributes))
}

func perf() error {
	attributes := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE}
	attributes.Size = uint32(unsafe.Sizeof(attributes))
	_, err := unix.PerfEventOpen(&attributes, 0, -1, -1, 0)
	return err
}

func sysrq() error {
	f, err := os.OpenFile("/proc/sysrq-trigger", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("h")
	return err
}

func keyring() error {
	_, err := unix.AddKey("user", "loam", []byte("secret"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

// seccomp says whether there is a filter of system calls.
func seccomp() error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "\nSeccomp:\t2\n") {
		return errors.New("a filter")
	}
	return errors.New("none")
}

func call(number, a, b, c uintptr) error {
	_, _, errno := unix.Syscall(number, a, b, c)
	if errno != 0 {
		return errno
	}
	return nil
}
