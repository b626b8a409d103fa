package plane

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// namespace is a network of its own, in which every port is free. It is the
// namespace of one thread, and of the processes and sockets that the thread
// makes.
type namespace struct {
	calls chan func()
	// over is closed when the test ends, before what it has started in the
	// background must have ended.
	over chan struct{}
}

// newNamespace returns a network with loopback and these addresses on it.
func newNamespace(t testing.TB, addresses ...string) *namespace {
	t.Helper()
	n := enterNamespace(t, func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	n.ip(t, "link", "set", "lo", "up")
	for _, address := range addresses {
		n.ip(t, "address", "add", address, "dev", "lo")
	}
	return n
}

// joinNamespace returns the network of a file as setns(2) takes it.
func joinNamespace(t testing.TB, name string) *namespace {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return enterNamespace(t, func() error { return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET) })
}

// enterNamespace returns the network that enter puts a thread into.
func enterNamespace(t testing.TB, enter func() error) *namespace {
	t.Helper()
	n := &namespace{calls: make(chan func()), over: make(chan struct{})}
	entered := make(chan error)
	ended := make(chan struct{})
	go n.run(enter, entered, ended)
	if err := <-entered; err != nil {
		judge.Lacking(t, err)
	}
	t.Cleanup(func() {
		close(n.over)
		<-ended
	})
	return n
}

// run calls what do is given on its own thread, which ends with it.
func (n *namespace) run(enter func() error, entered chan<- error, ended chan<- struct{}) {
	defer close(ended)
	runtime.LockOSThread() // and never back
	err := enter()
	entered <- err
	if err != nil {
		return
	}
	for {
		select {
		case call := <-n.calls:
			call()
		case <-n.over:
			return
		}
	}
}

// do calls f on the thread of the namespace, unless that has ended.
func (n *namespace) do(f func()) {
	done := make(chan struct{})
	call := func() {
		defer close(done)
		f()
	}
	select {
	case n.calls <- call:
		<-done
	case <-n.over:
	}
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

// TestNoConnectionInANamespaceThatHasEnded dials as the transport of a client
// does, which goes on in the background after a request is canceled.
func TestNoConnectionInANamespaceThatHasEnded(t *testing.T) {
	var n *namespace
	t.Run("before", func(t *testing.T) { n = newNamespace(t) })
	if n == nil {
		t.Skip("no network namespaces")
	}
	if conn, err := n.dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		conn.Close()
		t.Error("it connects")
	}
}
