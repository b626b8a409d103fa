package reset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/files"
)

// fixture is the node that a test resets: a root directory, and a log of the
// steps. fails has the errors of steps by their names in the log.
type fixture struct {
	root  *os.Root
	did   []string
	fails map[string]error
	// kubelet is the state of its unit.
	kubelet string
	table   mount.Table
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	files.Write(t, filepath.Join(dir, "run/containerd/containerd.sock"), "")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &fixture{root: root, fails: map[string]error{}}
}

func (f *fixture) step(name string) error {
	f.did = append(f.did, name)
	return f.fails[name]
}

func (f *fixture) Reset(context.Context) error { return f.step("engine") }

func (f *fixture) Start(_ context.Context, name string) error { return f.step("start " + name) }

func (f *fixture) Stop(_ context.Context, name string) error { return f.step("stop " + name) }

func (f *fixture) Show(_ context.Context, names []string) ([]unit.State, error) {
	return []unit.State{{Name: names[0], Active: f.kubelet}}, nil
}

func (f *fixture) Table() (mount.Table, error) { return f.table, nil }

func (f *fixture) Unmount(_ context.Context, point string) error {
	return f.step("unmount " + point)
}

func (f *fixture) trim(dir string) error {
	return f.step("trim " + strings.TrimPrefix(dir, f.root.Name()))
}

func (f *fixture) TokenFiles() []string { return []string{"/srv/token"} }

func (f *fixture) reset(t *testing.T) *Reset {
	t.Helper()
	r, err := Open(Env{
		Engine:     f,
		Units:      f,
		Pods:       func(context.Context) error { return f.step("pods") },
		Mounts:     f,
		Trim:       f.trim,
		Tokens:     f,
		Root:       f.root.Name(),
		Node:       durable.New(f.root, nil),
		Now:        time.Now,
		JobTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}

	return r
}

func TestStopPodsAsksOnlyWherePodsMayRun(t *testing.T) {
	const shim = "run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/pid"
	for _, tt := range []struct {
		name string
		// socket says that containerd listens, shim that it has left a
		// container.
		socket, shim bool
		startErr     error
		want         []string
	}{
		{name: "containerd listens", socket: true, want: []string{"pods"}},
		{name: "containerd never ran"},
		{
			name: "containerd was stopped, and its pods were not",
			shim: true,
			want: []string{"start containerd.service", "pods"},
		},
		{
			name:     "containerd does not start",
			shim:     true,
			startErr: errors.New("failed"),
			want:     []string{"start containerd.service"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.fails["start containerd.service"] = tt.startErr
			if !tt.socket {
				if err := f.root.Remove("run/containerd/containerd.sock"); err != nil {
					t.Fatal(err)
				}
			}
			if tt.shim {
				files.Write(t, filepath.Join(f.root.Name(), shim), "1")
			}

			if err := f.reset(t).stopPods(t.Context()); !errors.Is(err, tt.startErr) {
				t.Errorf("stopPods: %v, want %v", err, tt.startErr)
			}
			if !slices.Equal(f.did, tt.want) {
				t.Errorf("did %v, want %v", f.did, tt.want)
			}
		})
	}
}

func TestStopKubeletLeavesAStoppedKubeletAlone(t *testing.T) {
	for _, tt := range []struct {
		state string
		want  []string
	}{
		{state: "active", want: []string{"stop kubelet.service"}},
		{state: "activating", want: []string{"stop kubelet.service"}},
		{state: "inactive"},
		{state: "failed"},
	} {
		t.Run(tt.state, func(t *testing.T) {
			f := newFixture(t)
			f.kubelet = tt.state
			if err := f.reset(t).stopKubelet(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(f.did, tt.want) {
				t.Errorf("did %v, want %v", f.did, tt.want)
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}

	for _, tt := range []struct {
		name    string
		record  *record
		machine string
		want    bool
	}{
		{name: "no reset", machine: "b"},
		{
			name:    "done with another machine.yaml",
			record:  &record{Done: true, Machine: digest("a")},
			machine: "b",
			want:    true,
		},
		{
			name:    "done with the same machine.yaml",
			record:  &record{Done: true, Machine: digest("a")},
			machine: "a",
		},
		{
			name:    "done without a machine.yaml, and there is one now",
			record:  &record{Done: true},
			machine: "b",
			want:    true,
		},
		{name: "done, and machine.yaml is gone", record: &record{Done: true, Machine: digest("a")}},
		{name: "not done", record: &record{Machine: digest("a")}, machine: "b"},
		{name: "a damaged record", record: &record{Done: true, damaged: true}, machine: "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Reset{record: tt.record}
			if tt.machine != "" {
				r.machine = digest(tt.machine)
			}
			if got := r.Superseded(); got != tt.want {
				t.Errorf("Superseded() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRecordHasNoSecret(t *testing.T) {
	text, err := json.Marshal(record{
		At:      time.Unix(0, 0).UTC(),
		Machine: "ab",
		Tokens:  []string{"/srv/token"},
		Done:    true,
	})
	if err != nil ||
		string(text) != `{"at":"1970-01-01T00:00:00Z","machine":"ab","tokens":["/srv/token"],"done":true}` {
		t.Errorf("%s %v", text, err)
	}
}

// nodeAgentText is a configuration of Gardener's node agent.
const nodeAgentText = "apiVersion: nodeagent.config.gardener.cloud/v1alpha1\nkind: NodeAgentConfiguration\napiServer: {server: 'https://api'}\n" +
	"controllers: {operatingSystemConfig: {secretName: s, kubernetesVersion: 1.36.3}}\n"

// TestAResetKnowsTheTokensThatTheConfigurationCarries: they are secrets, and
// what names their files goes before they do.
func TestAResetKnowsTheTokensThatTheConfigurationCarries(t *testing.T) {
	root := files.Root(t)
	const carried = "var/lib/gardener-node-agent/config-v1.149.0.yaml"
	text := strings.Replace(
		nodeAgentText,
		"controllers: {",
		"controllers: {token: {syncConfigs: [{secretName: t, path: /var/lib/log/token}]}, ",
		1,
	)
	for name, text := range map[string]string{carried: text, "var/lib/loam/x": ""} {
		err := errors.Join(
			root.MkdirAll(filepath.Dir(name), 0o755), root.WriteFile(name, []byte(text), 0o600),
		)
		if err != nil {
			t.Fatal(err)
		}
	}

	r := &Reset{env: Env{Node: durable.New(root, nil), Now: time.Now, Tokens: &fixture{}}}
	if err := r.Begin(); err != nil {
		t.Fatal(err)
	}
	record, err := readRecord(r.env.Node)
	if err != nil || !slices.Equal(record.Tokens, []string{"/srv/token", "/var/lib/log/token"}) {
		t.Errorf("%+v, %v", record, err)
	}
}

// TestAnEncryptedStateLosesItsKey at the end, when nothing else is to be done.
// The record goes to the next state.
func TestAnEncryptedStateLosesItsKey(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails string
		want  []string
		done  bool
	}{
		{
			name: "the machine restarts",
			want: []string{"pods", "engine", "drop the key", "restart", "trim /var"},
			done: true,
		},
		{
			name:  "the configuration is still there",
			fails: "engine",
			want:  []string{"pods", "engine", "trim /var"},
		},
		{
			name:  "the key cannot be dropped",
			fails: "drop the key",
			want:  []string{"pods", "engine", "drop the key", "trim /var"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.kubelet = "inactive"
			files.Write(t, filepath.Join(f.root.Name(), source.AcceptedName), "{}")
			if tt.fails != "" {
				f.fails[tt.fails] = apply.ErrUnfinished
			}
			r := f.reset(t)
			if err := r.Begin(); err != nil {
				t.Fatal(err)
			}

			r = f.reset(t)
			var carried record
			r.env.DropKey = func(text string) error {
				if err := json.Unmarshal([]byte(text), &carried); err != nil {
					t.Error(err)
				}
				return f.step("drop the key")
			}
			r.env.Restart = func(context.Context) error { return f.step("restart") }
			err := r.Run(t.Context())
			done := r.Status().Done
			if tt.done != (err == nil) || tt.done != done || !slices.Equal(f.did, tt.want) {
				t.Errorf("did %q, done %t, %v", f.did, r.Status().Done, err)
			}
			if tt.done && (!carried.Done || len(carried.Tokens) > 0 || carried.At.IsZero()) {
				t.Errorf("the next state begins with %+v", carried)
			}

			kept, err := readRecord(r.env.Node)
			if err != nil || kept.Done {
				t.Errorf("the old state has %+v, %v", kept, err)
			}
		})
	}
}

// TestProgramsThatPodsHaveInstalledAreRemoved: the kubelet of the next cluster
// would run them.
func TestProgramsThatPodsHaveInstalledAreRemoved(t *testing.T) {
	f := newFixture(t)
	driver := "var/usrlibexec/kubernetes/kubelet-plugins/volume/exec/nodeagent~uds/uds"
	files.Write(t, filepath.Join(f.root.Name(), driver), "#!/bin/sh\n")
	files.Write(t, filepath.Join(f.root.Name(), "var/lib/loam/x"), "")
	if err := f.reset(t).Begin(); err != nil {
		t.Fatal(err)
	}
	if err := f.reset(t).forgetIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := f.root.Open(strings.TrimPrefix(pluginDirectory, "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer entries.Close()
	if names, err := entries.Readdirnames(-1); err != nil || len(names) > 0 {
		t.Errorf("%v is left, %v", names, err)
	}
}

func TestAResetSaysWhichVolumeKeepsItsContent(t *testing.T) {
	for name, test := range map[string]struct {
		record  string
		mounted bool
		want    string
	}{
		"a node without a volume":  {"", false, ""},
		"a volume that is there":   {`{"fileSystem": "ext4", "made": true}`, true, ""},
		"a claim without a volume": {`{"fileSystem": "ext4"}`, false, ""},
		"a volume that is not there": {
			`{"fileSystem": "ext4", "made": true}`, false,
			"the data volume is not there, and keeps what is on it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			files.Write(t, filepath.Join(f.root.Name(), "var/lib/loam/x"), "")
			if test.record != "" {
				files.Write(t, filepath.Join(f.root.Name(), volume.RecordFile), test.record)
			}
			if test.mounted {
				point := filepath.Join(f.root.Name(), volume.Mountpoint)
				f.table = mount.Parse("36 1 8:16 / " + point + " rw - ext4 /dev/sdb rw\n")
			}
			r := f.reset(t)
			if err := r.Begin(); err != nil {
				t.Fatal(err)
			}

			r = f.reset(t)
			err := r.Run(t.Context())
			if !r.Status().Done {
				t.Errorf("the reset is not done: %v", err)
			}
			if (test.want == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
