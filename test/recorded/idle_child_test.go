package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	agent "github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/units"
)

// child is a node whose agent has a process for itself, so that what the
// process uses is what the agent uses.
type child struct {
	Dir                 string
	Config              agent.Config
	Kubelet, Containerd string
	// Socket is where its systemd listens; "" for one that only records.
	Socket string
	Steady time.Duration
}

// childVariable has this program run as the child that it describes.
const childVariable = "LOAM_RECORDED_NODE"

func TestMain(m *testing.M) {
	node := os.Getenv(childVariable)
	systemd := os.Getenv(systemdVariable)
	reference := os.Getenv(referenceVariable)
	var err error
	switch {
	case node != "":
		err = runChild(node)
	case systemd != "":
		err = runSystemd(systemd)
	case reference != "":
		err = becomeReference(reference)
	default:
		code := m.Run()
		controlPlanes.Close()
		os.Exit(code)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runChild is the node until standard input ends, as it does with the parent.
func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("decode %s: %w", childVariable, err)
	}

	ctx := untilInputEnds()
	var systemd Units = &units.Fake{Around: units.Slow(5 * time.Millisecond)}
	if c.Socket != "" {
		real, err := unit.Connect(ctx, c.Socket)
		if err != nil {
			return err
		}
		defer real.Close()
		systemd = real
	}

	n, err := New(c.Dir, c.Config, "", systemd, c.Steady, logger())
	if err != nil {
		return err
	}
	if err := n.Complete(c.Kubelet, c.Containerd); err != nil {
		return errors.Join(err, n.Close())
	}

	return errors.Join(n.Run(ctx), n.Close())
}

// untilInputEnds is the time until standard input ends, as it does with the
// parent.
func untilInputEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// startChild runs the node that c describes, and returns its process ID.
func (w *fixture) startChild(c child) int {
	w.Helper()
	pid, _ := w.startSelf(childVariable, c.text(w))
	return pid
}

func (c child) text(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startSelf runs this program again, with its role in an environment variable.
// It returns the process ID and a function that ends it before the test ends.
func (w *fixture) startSelf(variable, value string) (int, func()) {
	w.Helper()
	program, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}

	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), variable+"="+value)
	cmd.Stderr = os.Stderr

	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = startLazy(cmd)
	}

	if err != nil {
		w.Fatal(err)
	}

	end := sync.OnceFunc(func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(end)
	return cmd.Process.Pid, end
}

// startLazy starts a process with the timer slack of loam-agent.service, which
// a process has from the thread that forks it (prctl(2), PR_SET_TIMERSLACK).
func startLazy(cmd *exec.Cmd) error {
	const slack = time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}

	err := cmd.Start()
	return errors.Join(err, unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)) // The default again.
}

// admit gives the node in dir its certificate, which it would else ask for.
func (w *fixture) admit(dir, machine string) {
	w.Helper()
	text := w.Kubeconfig(w.TB, "gardener.cloud:node-agent:machine:"+machine, agentGroup)
	dir = filepath.Join(dir, credentialsDir)
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(text), 0o600))
	if err != nil {
		w.Fatal(err)
	}
}

// answering are a kubelet and a containerd that say that they are well.
func answering(t testing.TB) (kubelet, containerd string) {
	healthz := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(healthz.Close)
	containerd = filepath.Join(t.TempDir(), "containerd.sock")
	listener, err := net.Listen("unix", containerd)
	if err != nil {
		t.Fatal(err)
	}

	var clear http.Protocols
	clear.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: &clear,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "0")
		}),
	}

	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	// The first to connect is charged with a write: the socket's time of access
	// (touch_atime in net/unix/af_unix.c). On a node that is not on a disk.
	first, err := net.Dial("unix", containerd)
	if err != nil {
		t.Fatal(err)
	}

	_ = first.Close()
	return healthz.Listener.Addr().String(), containerd
}
