package control_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// nobody is a user other than root.
const nobody = 65534

// The socket's mode keeps others away. This check is for a socket with a wrong
// mode. A socket in the abstract namespace (unix(7)) has no mode.
func TestOnlyRootIsAllowed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}

	socket := fmt.Sprintf("@loam-test-%d", os.Getpid())
	listener, err := net.Listen("unix", socket)
	must(t, err)

	a := serve(t, listener, socket)
	if _, err := a.Client.Confirm(t.Context()); err != nil {
		t.Errorf("root: %v", err)
	}

	conns := make(chan net.Conn)
	go func() {
		// Only this thread changes its user, and it ends with the goroutine.
		runtime.LockOSThread()
		keep := ^uintptr(0)
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, nobody, keep)
		if errno != 0 {
			t.Errorf("setresuid: %v", errno)
		}

		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Errorf("dial: %v", err)
		}

		conns <- conn
	}()

	code, text := post(t, <-conns, "/confirm", "{}")
	want := `{"error":"user 65534 may not use the agent, only root","code":"not-permitted"}`
	if code != 403 || text != want {
		t.Errorf("nobody: answer %d %s, want 403 %s", code, text, want)
	}
}

// A connection without a known user is refused.
func TestConnectionWithoutUser(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serve(t, listener, "")
	conn, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	code, text := post(t, conn, "/confirm", "{}")
	want := `{"error":"only a unix socket identifies its client","code":"failed"}`
	if code != 403 || text != want {
		t.Errorf("answer %d %s, want 403 %s", code, text, want)
	}
}
