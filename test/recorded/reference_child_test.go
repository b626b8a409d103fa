package recorded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/shoot"
)

const (
	referenceHost   = "host-2"
	referenceNode   = nodes + "/node-2"
	referenceSecret = "gardener-node-agent-reference"
	// referenceBase is where the node agent has its own files.
	referenceBase = "var/lib/gardener-node-agent"
	// referenceProgram is where the node has the node agent.
	referenceProgram = "opt/bin/gardener-node-agent"
	// kubeletHealthz is where the node agent asks after its kubelet.
	kubeletHealthz = "127.0.0.1:10248"
)

// reference is a node whose agent is Gardener's own. It has a root directory, a
// host name and mounts for itself, as the paths that the agent uses are fixed.
type reference struct {
	Dir string

	// Program is the node agent. It, Systemd and Containerd are paths outside
	// of Dir, which the node has at its own places.
	Program string

	// Systemd is the socket of its systemd.
	Systemd string

	// Containerd is the socket of its containerd.
	Containerd string
}

// referenceVariable has this program become the node agent of the reference
// that it describes.
const referenceVariable = "LOAM_RECORDED_REFERENCE"

// Descriptors of the process that becomes a node agent: it closes its end of
// ready when it is about to, and begins when there is something to read from
// start.
const (
	startDescriptor = 0
	readyDescriptor = 3
)

// become has this process, which has namespaces for mounts and its host name,
// become the node agent.
func (r reference) become() error {
	// No mount of this process is to reach the machine.
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}

	for at, from := range map[string]string{
		referenceProgram:                 r.Program,
		"run/systemd/private":            r.Systemd,
		"run/containerd/containerd.sock": r.Containerd,
	} {
		err := unix.Mount(from, filepath.Join(r.Dir, at), "", unix.MS_BIND, "")
		if err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}

	err = unix.Sethostname([]byte(referenceHost))
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}

	err = unix.Chroot(r.Dir)
	if err != nil {
		return fmt.Errorf("chroot %s: %w", r.Dir, err)
	}

	err = unix.Chdir("/")
	if err != nil {
		return err
	}

	// The time before this is not the node agent's.
	err = unix.Close(readyDescriptor)
	if err != nil {
		return err
	}

	_, err = unix.Read(startDescriptor, make([]byte, 1))
	if err != nil {
		return fmt.Errorf("wait for the start: %w", err)
	}

	args := []string{shoot.NodeAgentProgram, "--config-dir=/" + referenceBase}
	return unix.Exec("/"+referenceProgram, args, []string{"PATH=/usr/bin:/opt/bin"})
}

func becomeReference(text string) error {
	var r reference
	err := json.Unmarshal([]byte(text), &r)
	if err != nil {
		return fmt.Errorf("decode %s: %w", referenceVariable, err)
	}
	return r.become()
}

// newReference makes a node in an empty directory, whose agent is Gardener's
// own and has its certificate. Everything there is as on a node that has booted
// and has not applied a configuration yet.
func (w *fixture) newReference(dir, containerd string) reference {
	w.Helper()
	program, version := shoot.NodeAgent(w.TB)
	r := reference{
		Dir:        dir,
		Program:    program,
		Systemd:    w.startSystemd(dir),
		Containerd: containerd,
	}

	for _, name := range []string{
		"etc/systemd/system",
		"tmp",
		filepath.Dir(tokenFile),
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			w.Fatal(err)
		}
	}

	for name, text := range map[string]string{
		// The image of a node has it, and the first configuration restarts it.
		"etc/systemd/system/containerd.service":        "[Service]\nExecStart=containerd\n",
		referenceProgram:                               "",
		"run/systemd/private":                          "",
		"run/containerd/containerd.sock":               "",
		referenceBase + "/machine-name":                "machine-2\n",
		referenceBase + "/cluster-ca.crt":              w.CA(),
		referenceBase + "/config-" + version + ".yaml": w.referenceConfig(),
		// It has all permissions: the authorizer is not part of the
		// measurement.
		credentialsDir + "/kubeconfig": w.Kubeconfig(w.TB,
			"gardener.cloud:node-agent:machine:machine-2", "system:masters"),
	} {
		name = filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o600))
		if err != nil {
			w.Fatal(err)
		}
	}

	return r
}

// referenceConfig is the configuration as Gardener renders it, but that it logs
// errors only, as Loam's agent does here, and that its servers have free ports.
func (w *fixture) referenceConfig() string {
	w.Helper()
	level := "error"
	if os.Getenv("LOAM_LOG") != "" {
		level = "info"
	}

	return fmt.Sprintf(`apiVersion: nodeagent.config.gardener.cloud/v1alpha1
kind: NodeAgentConfiguration
logLevel: %s
apiServer:
  server: %s
  caFile: /%s/cluster-ca.crt
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
controllers:
  operatingSystemConfig:
    secretName: %s
    kubernetesVersion: 1.36.3
  token:
    syncPeriod: 12h
    syncConfigs:
    - {secretName: %s, path: /%s}
`, level, w.URL(), referenceBase, freePort(w.TB), freePort(w.TB), referenceSecret, w.token, tokenFile)
}

// freePort is a port of loopback that nothing listens on.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().(*net.TCPAddr).Port
}

// process is a node agent of Gardener's that has not begun yet.
type process struct {
	pid int
	// begin has it begin, and end ends it.
	begin, end func()
}

// prepare makes everything that the node agent needs, up to the execve(2) of
// it.
func (w *fixture) prepare(r reference) process {
	w.Helper()
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}

	text, err := json.Marshal(r)
	if err != nil {
		w.Fatal(err)
	}

	log, err := os.Create(filepath.Join(r.Dir, "log"))
	if err != nil {
		w.Fatal(err)
	}
	defer log.Close()

	readyHere, readyThere, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	defer readyHere.Close()

	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), referenceVariable+"="+string(text))
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{readyThere}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS}

	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}

	err = errors.Join(err, readyThere.Close())
	if err != nil {
		w.Fatal(err)
	}

	end := sync.OnceFunc(func() {
		err := errors.Join(cmd.Process.Signal(unix.SIGTERM), cmd.Wait())
		said, _ := os.ReadFile(log.Name()) // best effort: it explains a failure
		if err != nil || w.Failed() || os.Getenv("LOAM_LOG") != "" {
			w.Logf("%s: %v\n%s", shoot.NodeAgentProgram, err, said)
		}
	})
	w.Cleanup(end)
	_, _ = io.Copy(io.Discard, readyHere) // It ends when the process is ready, or has failed.

	return process{
		pid: cmd.Process.Pid,
		begin: func() {
			if _, err := io.WriteString(stdin, "\n"); err != nil {
				w.Fatal(err)
			}
		},
		end: end,
	}
}

// answeringReference is a kubelet and a containerd that say that they are well,
// as Gardener's node agent asks them: the kubelet at its usual port, and the
// containerd, whose socket is returned, with a message, which is empty.
func answeringReference(t testing.TB) (containerd string) {
	t.Helper()
	kubelet, err := net.Listen("tcp", kubeletHealthz)
	if err != nil {
		t.Fatalf("a kubelet for %s: %v", shoot.NodeAgentProgram, err)
	}

	healthz := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	})}

	go func() { _ = healthz.Serve(kubelet) }()
	t.Cleanup(func() { _ = healthz.Close() })

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
			// No compression, a length of 0.
			_, _ = io.WriteString(w, strings.Repeat("\x00", 5))
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		}),
	}

	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return containerd
}
