package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/files"
)

// resetNode is what a reset finds: a root directory, and a log of what it did.
// fails are errors of steps by name, as they are in the log.
type resetNode struct {
	root  *os.Root
	did   []string
	fails map[string]error
	// kubelet is its state, "" for active.
	kubelet string
	mounts  []string
	hook    durable.Hook
	ended   error
}

func newResetNode(t *testing.T) *resetNode {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"var/lib/loam/machine-id",
		"var/lib/loam/inplace.json",
		"var/lib/loam/machine.json",
		"var/lib/gardener-node-agent/credentials/kubeconfig",
		"var/lib/kubelet/pki/kubelet-client-current.pem",
		"var/lib/kubelet/pods/a/etc-hosts",
		"var/lib/loam/plane/record.json",
		"var/lib/loam/plane/keys/authorities/ca.key",
		"var/lib/private/etcd/member/wal/0.wal",
		"srv/token",
		"srv/other",
		"run/containerd/containerd.sock",
	} {
		files.Write(t, filepath.Join(dir, name), "x")
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { root.Close() })
	return &resetNode{
		root:   root,
		fails:  map[string]error{},
		mounts: []string{filepath.Join(dir, "var/lib/kubelet/pods/a/token")},
	}
}

func (n *resetNode) step(name string) error {
	n.did = append(n.did, name)
	return n.fails[name]
}

func (n *resetNode) Reset(context.Context) error { return n.step("engine") }

func (n *resetNode) Start(_ context.Context, name string) error { return n.step("start " + name) }

func (n *resetNode) Stop(_ context.Context, name string) error { return n.step("stop " + name) }

func (n *resetNode) Show(_ context.Context, names []string) ([]unit.State, error) {
	if n.kubelet == "" {
		return []unit.State{{Name: names[0], Active: "active"}}, nil
	}
	return []unit.State{{Name: names[0], Active: n.kubelet}}, nil
}

// TokenFiles is what machine.yaml names.
func (n *resetNode) TokenFiles() []string { return []string{"/srv/token"} }

// Table implements mount.System.
func (n *resetNode) Table() (mount.Table, error) {
	var table mount.Table
	for _, point := range n.mounts {
		table = append(table, mount.Mount{Point: point})
	}
	return table, nil
}

// Unmount implements mount.System.
func (n *resetNode) Unmount(_ context.Context, point string) error {
	if err := n.step("unmount " + filepath.Base(point)); err != nil {
		return err
	}
	n.mounts = slices.DeleteFunc(n.mounts, func(have string) bool { return have == point })
	return nil
}

// reset is as a start of the agent has it, with a machine.yaml.
func (n *resetNode) trim(dir string) error {
	return n.step("trim " + strings.TrimPrefix(dir, n.root.Name()))
}

func (n *resetNode) reset(t *testing.T, machineYAML string) *reset.Reset {
	t.Helper()
	r, err := reset.Open(reset.Env{
		Engine:     n,
		Units:      n,
		Pods:       func(context.Context) error { return n.step("pods") },
		Rules:      func(context.Context) error { return n.step("rules") },
		Mounts:     n,
		Trim:       n.trim,
		Tokens:     n,
		Root:       n.root.Name(),
		Node:       durable.New(n.root, n.hook),
		Now:        time.Now,
		JobTimeout: jobWait,
	})
	if err != nil {
		t.Log(err)
	}
	if _, err := r.Observe(source.Document{Text: []byte(machineYAML)}.TextDigest()); err != nil {
		t.Fatal(err)
	}

	return r
}

// start is a life of the agent in a bubble, up to the end of step.
func (n *resetNode) start(
	t *testing.T,
	machineYAML string,
	step func(t *testing.T, w *loopNode, p operator),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n.ended = nil
		w := &loopNode{units: make(chan string)}
		p := operator{Requests: make(loop.Requests), reset: n.reset(t, machineYAML)}
		a := w.agent(p, func(why error) { n.ended = why })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(time.Second) // of the bubble's clock
		synctest.Wait()
		if p.resetUnfinished() {
			p.goOn(ctx, a.Log)
			synctest.Wait()
		}

		step(t, w, p)
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
}

// begin asks an agent that follows its source.
func (n *resetNode) begin(t *testing.T) {
	t.Helper()
	n.start(t, "a", func(t *testing.T, _ *loopNode, p operator) {
		if _, err := p.Reset(t.Context()); !errors.Is(err, control.ErrRestarting) {
			t.Fatal(err)
		}
	})
	if !errors.Is(n.ended, loop.ErrReset) {
		t.Fatalf("the agent ended with %v", n.ended)
	}
}

// resetRecord is what the tests read of the record.
type resetRecord struct {
	Tokens []string `json:"tokens"`
	Done   bool     `json:"done"`
}

// record is the record on disk, nil if none.
func (n *resetNode) record(t *testing.T) *resetRecord {
	t.Helper()
	text, err := n.root.ReadFile(reset.RecordName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	r := &resetRecord{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// isForgotten says whether the identity is gone, and nothing else.
func (n *resetNode) isForgotten(t *testing.T) {
	t.Helper()
	want := []string{
		"run", "run/containerd", "run/containerd/containerd.sock",
		"srv", "srv/other",
		"var", "var/lib", "var/lib/gardener-node-agent", "var/lib/kubelet",
		"var/lib/loam", "var/lib/loam/machine-id", "var/lib/loam/plane",
		"var/lib/loam/reset.json", "var/lib/private", "var/lib/private/etcd",
	}
	if diff := cmp.Diff(want, files.Names(t, n.root.Name())); diff != "" {
		t.Errorf("the node has (-want +got):\n%s", diff)
	}
}

var inOrder = []string{
	"stop kubelet.service", "pods", "engine", "rules", "unmount token", "trim /var",
}

func TestResetIsTheWorkOfTheNextStart(t *testing.T) {
	n := newResetNode(t)
	n.begin(t)
	if r := n.record(t); r == nil || r.Done || !slices.Equal(r.Tokens, []string{"/srv/token"}) ||
		len(n.did) > 0 {
		t.Fatalf("record %+v, done %v", r, n.did)
	}

	n.start(t, "a", func(t *testing.T, w *loopNode, p operator) {
		// A caller who asked the agent before gets this agent's answer.
		if o, err := p.Reset(t.Context()); err != nil || o.Result != control.Reset {
			t.Errorf("%+v %v", o, err)
		}
		if diff := cmp.Diff(inOrder, n.did); diff != "" {
			t.Errorf("did (-want +got):\n%s", diff)
		}
		if s := w.last(); s.Reset == nil || !s.Reset.Done || s.Phase != status.Waiting ||
			s.Error != nil {
			t.Errorf("status %+v", s)
		}
		if len(w.news) == 0 || w.news[len(w.news)-1] != status.Waiting {
			t.Errorf("the consoles were told %v", w.news)
		}

		_, err := p.Verify(t.Context(), control.VerifyRequest{Repair: true})
		if !errors.Is(err, loop.ErrInReset) {
			t.Errorf("verify: %v", err)
		}
		if len(w.did) > 0 || w.resumed || w.tidied {
			t.Errorf("as if it had a source: %v, resumed %t", w.did, w.resumed)
		}
	})
	n.isForgotten(t)

	// Once more on purpose does it all again.
	n.start(t, "a", func(t *testing.T, _ *loopNode, p operator) {
		if _, err := p.Reset(t.Context()); err != nil ||
			!slices.Equal(n.did[len(n.did)-3:], []string{"pods", "engine", "trim /var"}) {
			t.Errorf("%v %v", n.did, err)
		}
	})
}

func TestResetWhoseStepFailsGoesOnWithTheNextStart(t *testing.T) {
	for _, tt := range []struct {
		step string
		err  error
		// done says that the reset is over all the same.
		done bool
		// rest is everything else that is done.
		rest []string
	}{
		{step: "stop kubelet.service", err: errors.New("timeout"), rest: inOrder},
		{
			step: "pods",
			err:  errors.New("no containerd"),
			done: true,
			rest: inOrder,
		},
		{step: "engine", err: fmt.Errorf("%w: stop a.service", apply.ErrUnfinished), rest: inOrder},
		{
			step: "engine",
			err:  errors.New("restart containerd.service"),
			done: true,
			rest: inOrder,
		},
		{step: "rules", err: errors.New("no nft"), done: true, rest: inOrder},
		{step: "unmount token", err: errors.New("device or resource busy"), rest: inOrder},
		{
			step: "trim /var",
			err:  errors.New("remote I/O error"),
			done: true,
			rest: inOrder,
		},
	} {
		t.Run(tt.step+": "+tt.err.Error(), func(t *testing.T) {
			n := newResetNode(t)
			n.begin(t)
			n.fails[tt.step] = tt.err
			n.start(t, "a", func(t *testing.T, w *loopNode, p operator) {
				if diff := cmp.Diff(tt.rest, n.did); diff != "" {
					t.Errorf("did (-want +got):\n%s", diff)
				}
				if s := w.last(); s.Reset.Done != tt.done || (s.Phase == status.Failed) == tt.done {
					t.Errorf("status %+v, error %+v", s.Reset, s.Error)
				}
				if _, err := p.Reset(t.Context()); err == nil ||
					!strings.Contains(err.Error(), tt.err.Error()) {
					t.Errorf("the answer is %v", err)
				}
				if _, err := p.Apply(t.Context(), control.ApplyRequest{}); !tt.done &&
					!errors.Is(err, loop.ErrNotReset) {
					t.Errorf("apply: %v", err)
				}
			})
			if tt.done {
				return
			}

			delete(n.fails, tt.step)
			n.start(t, "a", func(t *testing.T, _ *loopNode, p operator) {
				if _, err := p.Reset(t.Context()); err != nil {
					t.Error(err)
				}
			})
			n.isForgotten(t)
		})
	}
}

// TestResetThatIsCutOffGoesOn cuts it off before each durable step, and before
// each other one, in the agent that is asked and in that which carries it out.
func TestResetThatIsCutOffGoesOn(t *testing.T) {
	errPower := errors.New("power cut")

	for k, complete := 0, false; !complete; k++ {
		n := newResetNode(t)
		left := k
		cut := func() error {
			if left--; left < 0 {
				return errPower
			}
			return nil
		}
		n.hook = func(durable.Step) error { return cut() }
		r := n.reset(t, "a")
		err := r.Begin()
		if err == nil {
			r = n.reset(t, "a")
			err = r.Run(t.Context())
		}
		complete = err == nil
		n.hook = nil
		record := n.record(t)
		if record == nil { // Nothing was asked yet.
			if _, err := n.root.Stat("var/lib/kubelet/pki"); err != nil || len(n.did) > 0 {
				t.Fatalf("cut at %d: without a record, it did %v: %v", k, n.did, err)
			}
			continue
		}
		n.start(t, "a", func(t *testing.T, _ *loopNode, p operator) {
			if _, err := p.Reset(t.Context()); err != nil {
				t.Fatalf("cut at %d: %v", k, err)
			}
		})
		if n.isForgotten(t); t.Failed() || !n.record(t).Done {
			t.Fatalf("cut at %d: %+v", k, n.record(t))
		}
	}
}

func TestApplyEndsAReset(t *testing.T) {
	for _, request := range []control.ApplyRequest{{}, {Name: "f", Document: "x"}} {
		n := newResetNode(t)
		n.begin(t)
		n.start(t, "a", func(t *testing.T, w *loopNode, p operator) {
			if _, err := p.Apply(t.Context(), request); !errors.Is(err, control.ErrRestarting) {
				t.Error(err)
			}
			if n.record(t) != nil || !errors.Is(n.ended, loop.ErrFollows) || w.applied {
				t.Errorf("record %+v, ended with %v, applied %v", n.record(t), n.ended, w.applied)
			}
		})
		n.start(t, "a", func(t *testing.T, w *loopNode, _ operator) {
			if !w.applied || w.last().Reset != nil {
				t.Errorf("status %+v", w.last())
			}
		})
	}
}

func TestMachineYAMLEndsAReset(t *testing.T) {
	t.Run("another machine.yaml", func(t *testing.T) {
		n := newResetNode(t)
		n.begin(t)
		n.start(t, "a", func(*testing.T, *loopNode, operator) {})
		n.start(t, "b", func(t *testing.T, w *loopNode, _ operator) {
			if n.record(t) != nil || !w.applied {
				t.Errorf("record %+v, status %+v", n.record(t), w.last())
			}
		})
	})

	t.Run("a machine.yaml that came before the reset was done", func(t *testing.T) {
		n := newResetNode(t)
		n.begin(t)
		n.start(t, "b", func(t *testing.T, w *loopNode, _ operator) {
			if n.record(t) != nil || !errors.Is(n.ended, loop.ErrFollows) || len(w.did) > 0 {
				t.Errorf("record %+v, ended with %v, did %v", n.record(t), n.ended, w.did)
			}
		})
		if _, err := n.root.Stat("var/lib/kubelet/pki"); err == nil {
			t.Error("the identity is still there")
		}
	})
}

func TestDamagedRecordOfAResetIsAReset(t *testing.T) {
	n := newResetNode(t)
	files.Write(t, filepath.Join(n.root.Name(), reset.RecordName), `{"at":`)
	n.start(t, "", func(t *testing.T, w *loopNode, p operator) {
		if len(n.did) > 0 || len(w.did) > 0 || w.last().Reset == nil {
			t.Errorf("it did %v, %v; status %+v", n.did, w.did, w.last())
		}
	})
}

func TestVolumeOfTheKubeletIsEmptiedWhileItIsMounted(t *testing.T) {
	n := newResetNode(t)
	n.mounts = append([]string{filepath.Join(n.root.Name(), "var/lib/kubelet")}, n.mounts...)
	n.begin(t)
	n.start(t, "a", func(*testing.T, *loopNode, operator) {})
	want := []string{
		"stop kubelet.service", "pods", "unmount token", "trim /var/lib/kubelet", "engine", "rules", "trim /var",
	}
	if !slices.Equal(n.did, want) {
		t.Errorf("did %v, want %v", n.did, want)
	}
	n.isForgotten(t)
}

// TestAResetOfANamelessNodeHolds when the name comes: its machine.yaml is the same.
func TestAResetOfANamelessNodeHolds(t *testing.T) {
	text := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostnameFrom: dhcp\n"
	n := unidentified(t)
	now := n.startWith(t, text)
	if !now.nameless {
		t.Fatal("it has a name")
	}
	if err := now.reset.Begin(); err != nil {
		t.Fatal(err)
	}

	begun, err := n.root.ReadFile(reset.RecordName)
	if err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(n.Root, reset.RecordName),
		strings.Replace(string(begun), `"done":false`, `"done":true`, 1))
	named := &life{node: &node{Env: n.Env, root: n.root}}
	named.reset = named.newReset()
	in, err := named.reset.Observe(source.Document{Text: []byte(text)}.TextDigest())
	if !in || err != nil {
		t.Errorf("in a reset: %t, %v; %s", in, err, begun)
	}
	if again := n.startWith(t, text+"# edited\n"); again.reset.Active() {
		t.Error("another machine.yaml does not end it")
	}
}
