package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/probe"
	"github.com/loam-os/loam/agent/proxy"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/repository"
)

// withProxy is a node whose machine.yaml has a proxy, and the environment of its
// agent.
func withProxy(t *testing.T) (n *testNode, environment map[string]string) {
	t.Helper()
	n = unidentified(t)
	environment = map[string]string{}
	n.Setenv = func(name, value string) error {
		environment[name] = value
		return nil
	}
	n.machine.Proxy = machine.Proxy{
		URL:     "http://node:secret@proxy:3128",
		NoProxy: []string{".site.example"},
	}
	return n, environment
}

func (n *testNode) proxySettings() proxy.Settings {
	return proxySettings(n.machine, n.root, n.planeStore())
}

// tryProxy takes the proxy of the node's machine.yaml. A restart of containerd ends
// with the error fails.
func (n *testNode) tryProxy(t *testing.T, fails error) (restarted bool, err error) {
	t.Helper()
	restart := func(context.Context) error {
		restarted = true
		return fails
	}
	err = applyProxy(t.Context(), n.proxySettings(), n.records(), n.Setenv, restart)
	return restarted, err
}

// applyProxy is tryProxy with a containerd that comes up; it has to be restarted, or
// must not be.
func (n *testNode) applyProxy(t *testing.T, restarts bool) {
	t.Helper()
	restarted, err := n.tryProxy(t, nil)
	if err != nil || restarted != restarts {
		t.Errorf("containerd is restarted: %t, want %t; %v", restarted, restarts, err)
	}
}

func TestProxyIsTaken(t *testing.T) {
	n, environment := withProxy(t)
	n.applyProxy(t, true)
	n.applyProxy(t, false) // It is there already, so containerd goes on.

	file := filepath.Join(n.Root, proxy.File)
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v: others may read the password", info, err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		if environment[name] != n.machine.Proxy.URL {
			t.Errorf("%s=%s", name, environment[name])
		}
	}
	if !strings.HasSuffix(environment["NO_PROXY"], ",.site.example") {
		t.Errorf("NO_PROXY=%s", environment["NO_PROXY"])
	}

	// Without a proxy, nothing is left of it.
	n.machine.Proxy = machine.Proxy{}
	n.applyProxy(t, true)
	n.applyProxy(t, false)
	want := map[string]string{"HTTP_PROXY": "", "HTTPS_PROXY": "", "NO_PROXY": ""}
	if diff := cmp.Diff(want, environment); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if _, err := n.root.Stat(proxy.File); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// A slow disk may keep containerd from coming up in time, and the agent may end
// meanwhile.
func TestContainerdIsRestartedUntilItHasTheProxy(t *testing.T) {
	n, _ := withProxy(t)
	n.applyProxy(t, true)

	n.machine.Proxy.URL = "http://other:3128"
	for range 2 {
		restarted, err := n.tryProxy(t, errors.New("timed out"))
		if !restarted || err == nil {
			t.Errorf("restarted %t, %v", restarted, err)
		}
	}

	n.applyProxy(t, true)
	n.applyProxy(t, false)
}

func TestClusterIsReachedWithoutTheProxy(t *testing.T) {
	direct := func(n *testNode) []string { return n.proxySettings().Direct }

	n, _ := withProxy(t)
	n.machine.Source.Cluster = &machine.Cluster{Server: "https://api.example.org:6443"}
	want := []string{".site.example", "api.example.org"}
	if diff := cmp.Diff(want, direct(n)); diff != "" {
		t.Errorf("a cluster (-want +got):\n%s", diff)
	}

	n, _ = withProxy(t)
	n.machine.Cluster.Init = &plane.Settings{
		Pods:     []string{"10.1.0.0/16"},
		Services: []string{"10.2.0.0/16"},
	}
	want = []string{".site.example", "10.1.0.0/16", "10.2.0.0/16"}
	if diff := cmp.Diff(want, direct(n)); diff != "" {
		t.Errorf("a cluster of its own (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{".site.example"}, n.machine.Proxy.NoProxy); diff != "" {
		t.Errorf("machine.yaml was changed (-want +got):\n%s", diff)
	}
}

// TestProxyThatCannotBeWrittenIsSaid: without its password.
func TestProxyThatCannotBeWrittenIsSaid(t *testing.T) {
	n, environment := withProxy(t)
	if err := n.root.MkdirAll(proxy.File, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := n.tryProxy(t, nil)
	if err == nil || strings.Contains(hint.Text(err), "secret") {
		t.Errorf("error %v", err)
	}
	if environment["HTTPS_PROXY"] == "" {
		t.Error("the agent itself goes without the proxy")
	}
	if _, err := fs.ReadFile(n.root.FS(), proxy.File); err == nil {
		t.Error("a directory was read")
	}
}

// proxyChild is set in the process that has a proxy: programs of Go read their
// environment once.
const proxyChild = "LOAM_TEST_PROXY"

// TestFetchesOfTheAgentUseTheProxy: releases over HTTP and as an artifact of
// a registry, and the address that a file waits for. No name of them exists.
func TestFetchesOfTheAgentUseTheProxy(t *testing.T) {
	if os.Getenv(proxyChild) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), proxyChild+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}

	var mu sync.Mutex
	asked := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Host] = r.Header.Get("Proxy-Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()

	n, _ := withProxy(t)
	n.Setenv = os.Setenv
	n.machine.Proxy.URL = strings.Replace(server.URL, "http://", "http://node:secret@", 1)
	n.applyProxy(t, true)

	for _, ref := range []string{"http://releases.invalid/loam", "oci+http://registry.invalid/loam"} {
		store, err := repository.Open(ref)
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Get(t.Context(), "timestamp.json", 1<<20)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	waits := config.Probe{URLs: []string{"http://mirror.invalid/v2/"}}
	if err := probe.Reach(t.Context(), waits); err != nil {
		t.Errorf("probe: %v", err)
	}
	waits = config.Probe{URLs: []string{"http://mirror.site.example/v2/"}}
	if err := probe.Reach(t.Context(), waits); err == nil {
		t.Error("what is reached without the proxy was reached by it")
	}

	mu.Lock()
	defer mu.Unlock()
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("node:secret"))
	want := map[string]string{
		"releases.invalid": login, "registry.invalid": login, "mirror.invalid": login,
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("the proxy was asked for (-want +got):\n%s", diff)
	}
}
