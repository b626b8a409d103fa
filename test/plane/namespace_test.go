package plane

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// namespace is a network of its own, in which every port is free. It is the
// namespace of one thread, and of the processes and sockets that the thread
// makes.
type namespace struct{ calls chan func() }

// newNamespace returns a network with loopback and these addresses on it.
func newNamespace(t testing.TB, addresses ...string) *namespace {
	t.Helper()
	n := &namespace{calls: make(chan func())}
	made := make(chan error)
	ended := make(chan struct{})
	go n.run(made, ended)
	if err := <-made; err != nil {
		judge.Lacking(t, err)
	}
	t.Cleanup(func() {
		close(n.calls)
		<-ended
	})

	n.ip(t, "link", "set", "lo", "up")
	for _, address := range addresses {
		n.ip(t, "address", "add", address, "dev", "lo")
	}
	return n
}

// run calls what do is given on its own thread, which ends with it.
func (n *namespace) run(made chan<- error, ended chan<- struct{}) {
	defer close(ended)
	runtime.LockOSThread() // and never back
	err := unix.Unshare(unix.CLONE_NEWNET)
	made <- err
	if err != nil {
		return
	}
	for call := range n.calls {
		call()
	}
}

// do calls f on the thread of the namespace.
func (n *namespace) do(f func()) {
	done := make(chan struct{})
	n.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (n *namespace) ip(t testing.TB, args ...string) {
	t.Helper()
	path := judge.Find(t, "ip")
	var out []byte
	var err error
	n.do(func() { out, err = exec.Command(path, args...).CombinedOutput() })
	if err != nil {
		t.Fatalf("ip %q: %v\n%s", args, err, out)
	}
}

// dial is for an [net/http.Transport].
func (n *namespace) dial(ctx context.Context, network, address string) (net.Conn, error) {
	err := errors.New("the namespace has ended")
	var conn net.Conn
	n.do(func() { conn, err = new(net.Dialer).DialContext(ctx, network, address) })
	return conn, err
}
