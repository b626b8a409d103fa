package control_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/hint"
)

func TestListen(t *testing.T) {
	for _, test := range []struct {
		name    string
		before  func(t *testing.T, socket string)
		wantErr string
	}{
		{name: "no socket", before: func(*testing.T, string) {}},
		{
			name: "no directory",
			before: func(t *testing.T, socket string) {
				must(t, os.Remove(filepath.Dir(socket)))
			},
		},
		{name: "a dead agent's socket", before: deadSocket},
		{
			name: "another agent",
			before: func(t *testing.T, socket string) {
				listener, err := control.Listen(socket)
				must(t, err)
				serve(t, listener, socket)
			},
			wantErr: "another agent answers there",
		},
		{
			name: "a file",
			before: func(t *testing.T, socket string) {
				must(t, os.WriteFile(socket, nil, 0o600))
			},
			wantErr: "a file that is not a socket is in the way",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "loam", "agent.sock")
			must(t, os.Mkdir(filepath.Dir(socket), 0o755))
			test.before(t, socket)
			listener, err := control.Listen(socket)
			if test.wantErr != "" {
				want := "listen on " + socket + ": " + test.wantErr
				if err == nil || err.Error() != want {
					t.Fatalf("error %v, want %s", err, want)
				}
				return
			}

			must(t, err)
			info, err := os.Lstat(socket)
			must(t, err)
			if info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("mode %v", info.Mode())
			}

			must(t, listener.Close())
			if _, err := os.Lstat(socket); err == nil {
				t.Error("the socket is left")
			}
		})
	}
}

// If several agents start at once over a stale socket, one of them listens.
func TestListenAtOnce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	deadSocket(t, socket)
	listeners := make(chan net.Listener, 8)
	var all sync.WaitGroup
	for range cap(listeners) {
		all.Go(func() {
			if listener, err := control.Listen(socket); err == nil {
				listeners <- listener
			}
		})
	}

	all.Wait()
	close(listeners)

	if len(listeners) != 1 {
		t.Errorf("%d listen", len(listeners))
	}

	for listener := range listeners {
		listener.Close()
	}
}

func TestClientWithoutAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	ask := func(want string) {
		t.Helper()
		_, err := control.Client{Socket: socket}.Verify(t.Context(), control.VerifyRequest{})
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.HasSuffix(hint.Text(err), "\nhint: systemctl status loam-agent") {
			t.Errorf("error %v, want %q and the hint", err, want)
		}
	}

	ask("no agent runs: ")
	deadSocket(t, socket)
	ask("no agent runs: ")
	must(t, os.Remove(socket))
	listener, err := net.Listen("unix", socket)
	must(t, err)
	defer listener.Close()

	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
		}
	}()

	ask("the agent ended before it answered: ")
}

// deadSocket leaves a socket as a killed process does.
func deadSocket(t *testing.T, socket string) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must(t, err)
	listener.SetUnlinkOnClose(false)
	must(t, listener.Close())

	_, err = net.Dial("unix", socket)
	if want := syscall.ECONNREFUSED; err == nil || !strings.Contains(err.Error(), want.Error()) {
		t.Fatalf("dial: %v, want %v", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
