package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

// egress is the proxy through which the API server reaches nodes, by CONNECT
// over a unix socket: a guest's address means nothing on this host, and only
// the test knows where QEMU forwards it.
type egress struct {
	socket  net.Listener
	serving sync.WaitGroup

	mu     sync.Mutex
	routes map[string]string
	open   map[io.Closer]bool // nil when the proxy has ended
}

// newEgress serves until close. The socket is abstract (unix(7)): a
// name in a temporary directory may be too long for one.
func newEgress(port int) (*egress, error) {
	socket, err := net.Listen("unix", egressSocket(port))
	if err != nil {
		return nil, fmt.Errorf("listen for the API server's connections to nodes: %w", err)
	}

	e := &egress{socket: socket, routes: map[string]string{}, open: map[io.Closer]bool{}}
	e.serving.Go(e.serve)
	return e, nil
}

func egressSocket(port int) string { return fmt.Sprintf("@loam-egress-%d-%d", os.Getpid(), port) }

// egressConfig is the file for --egress-selector-config-file.
func egressConfig(port int) string {
	return fmt.Sprintf(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`, egressSocket(port))
}

func (e *egress) route(from, to string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes[from] = to
}

func (e *egress) target(address string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if to, ok := e.routes[address]; ok {
		return to
	}
	return address
}

// hold keeps c for close. It is false, and c closed, when it is too late.
func (e *egress) hold(c io.Closer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.open == nil {
		c.Close()
		return false
	}

	e.open[c] = true
	return true
}

func (e *egress) release(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, c)
	c.Close()
}

func (e *egress) close() {
	e.socket.Close()
	e.mu.Lock()

	for c := range e.open {
		c.Close()
	}

	e.open = nil
	e.mu.Unlock()
	e.serving.Wait()
}

func (e *egress) serve() {
	for {
		conn, err := e.socket.Accept()
		if err != nil {
			return
		}
		e.serving.Go(func() { e.tunnel(conn) })
	}
}

// tunnel serves one connection of the API server.
func (e *egress) tunnel(conn net.Conn) {
	if !e.hold(conn) {
		return
	}

	defer e.release(conn)
	in := bufio.NewReader(conn)
	q, err := http.ReadRequest(in)
	if err != nil {
		return
	}

	node, err := net.Dial("tcp", e.target(q.Host))
	if err != nil {
		fmt.Fprintf(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%s",
			len(err.Error()), err)
		return
	}

	if !e.hold(node) {
		return
	}

	defer e.release(node)
	fmt.Fprint(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	splice(conn, in, node)
}

// splice copies both ways until both sides have said all.
func splice(conn net.Conn, in io.Reader, node net.Conn) {
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(conn, node)
		closeWrite(conn)
	})

	_, _ = io.Copy(node, in)
	closeWrite(node)
	answers.Wait()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
