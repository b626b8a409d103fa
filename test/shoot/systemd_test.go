package shoot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/decode"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/unitfile"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/shoot"
)

// TestDocumentsOnSystemd applies every document to a real systemd, and each
// neighbour over its base and back. Every unit comes up, only what the plan
// says is restarted, and afterwards there is nothing left to do.
func TestDocumentsOnSystemd(t *testing.T) {
	container.Run(t, documentsOnSystemd)
}

func documentsOnSystemd(t *testing.T, c *container.Container) {
	n := newNode(t, c)

	for _, d := range shoot.Documents(t) {
		if d.Kind != shoot.Reconcile {
			continue
		}
		t.Run(d.Version+"/"+d.Name, func(t *testing.T) {
			n.T = t
			if d.Base == nil {
				n.becomes(d)
				return
			}

			n.becomes(*d.Base)
			n.becomes(d)
			n.becomes(*d.Base)
		})
	}
}

// node is a container with the engine, as the agent has it.
type node struct {
	*testing.T
	*container.Container
	systemd  *unit.Systemd
	executor *apply.Executor
	decoder  decode.Decoder
}

// steady is how long units have to be well for a change to be good. Shorter
// than on a node: there are many changes.
const steady = 200 * time.Millisecond

// unitTimeout is how long the units of one change may take: much longer than on a
// machine that does nothing else.
const unitTimeout = 10 * time.Minute

func newNode(t *testing.T, c *container.Container) *node {
	image := c.OpenImage(t)
	systemd := c.Connect(t)

	root := c.OpenRoot(t)
	n := &node{T: t, Container: c, systemd: systemd}
	n.prepare(root)

	err := root.MkdirAll("var/lib/loam", 0o755)
	if err != nil {
		t.Fatal(err)
	}

	state, err := root.OpenRoot("var/lib/loam")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { state.Close() })

	n.executor = apply.Open(apply.Config{
		State:     durable.New(state, nil),
		Node:      durable.New(root, nil),
		Image:     image.FS(),
		Units:     systemd,
		OSVersion: "0.1.0",
		BootID:    "boot-1",
		JobWait:   unitTimeout,
		Steady:    steady,
		Limit:     unitTimeout,
		Now:       time.Now,
		Uptime:    executor.Uptime,
	})

	n.decoder = decode.Decoder{
		Hostname: "node-1",
		Contents: stubs{program: shoot.Stub(t, runtime.GOARCH)},
		Image:    image,
		Node:     withVolume(t),
	}

	return n
}

// withVolume returns the root directory of a node that has claimed a data
// volume, as the provision document of this kind of pool asks for. It is not
// the container's own, where no volume could be made and the kubelet would wait
// for it.
func withVolume(t *testing.T) *os.Root {
	t.Helper()
	root := files.Root(t)

	record := volume.Record{
		Claim:      volume.OfSize(25 << 30),
		FileSystem: "ext4",
		Made:       true,
	}

	err := errors.Join(
		root.MkdirAll(path.Dir(volume.RecordFile), 0o755),
		volume.Data.WriteRecord(durable.New(root, nil), record),
	)
	if err != nil {
		t.Fatal(err)
	}

	return root
}

// prepare makes the container a node that has booted: without the image's own
// agent, without systemd's limit of starts, which many changes run into, and
// with the tokens that the cluster gives a node.
func (n *node) prepare(root *os.Root) {
	n.Helper()
	for name, text := range map[string]string{
		"etc/systemd/system.conf.d/limit.conf":       "[Manager]\nDefaultStartLimitBurst=100000\n",
		"var/lib/opentelemetry-collector/auth-token": "token",
		"var/lib/valitail/auth-token":                "token",
	} {
		err := errors.Join(
			root.MkdirAll(filepath.Dir(name), 0o755),
			root.WriteFile(name, []byte(text), 0o644),
		)
		if err != nil {
			n.Fatal(err)
		}
	}

	// No test reads what systemd reports about each reload: it would wait for
	// it.
	out := n.Command(n.T, "umount", "/run/notify")
	if out != "" {
		n.Fatal(out)
	}

	err := errors.Join(
		n.systemd.Reload(n.Context()),
		n.systemd.Stop(n.Context(), "loam-agent.service"),
	)
	if err != nil {
		n.Fatal(err)
	}
}

// becomes applies a document and checks all that holds of every change.
func (n *node) becomes(d shoot.Document) {
	n.Helper()
	desired, err := n.decoder.Decode(n.Context(), source.Document{
		Name:        d.Name,
		Text:        d.OSC,
		FromCluster: true,
	})
	if err != nil {
		n.Fatalf("decode %s: %v", d.Name, err)
	}

	planned, err := n.executor.Plan(n.Context(), desired, d.Name)
	if err != nil {
		n.Fatalf("plan %s: %v", d.Name, err)
	}

	before := n.invocations(n.current())

	wanted, err := n.executor.Apply(n.Context(), apply.Request{Desired: desired, Source: d.Name})
	if err != nil {
		n.Fatalf("apply %s: %v\n%s", d.Name, err, planned)
	}

	n.proves(d)

	after := n.invocations(wanted)
	for _, name := range restarted(before, after) {
		if !touches(planned, name) && !onDemand(wanted, name) {
			n.Errorf("%s: %s was restarted, which is not in the plan:\n%s", d.Name, name, planned)
		}
	}

	rest, err := n.executor.Plan(n.Context(), desired, d.Name)
	if err != nil || !rest.Empty() {
		n.Errorf("%s: something is left to do after it was applied: %v\n%s", d.Name, err, rest)
	}
}

// proves waits for the verdict on a change, which must be good.
func (n *node) proves(d shoot.Document) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), unitTimeout)
	defer cancel()

	changes, err := n.systemd.Changes(ctx)
	if err != nil {
		n.Fatal(err)
	}

	for {
		verdict, err := n.executor.Judge(ctx)
		if err != nil {
			n.Fatalf("judge %s: %v", d.Name, err)
		}

		switch verdict.Word {
		case health.Good:
			_, err := n.executor.Conclude(ctx, verdict)
			if err != nil {
				n.Fatalf("conclude %s: %v", d.Name, err)
			}
			return
		case health.Bad:
			n.Fatalf("%s made the node worse: %s\n%s", d.Name, verdict.Reason, n.journal())
		}

		wait := verdict.Next - executor.Uptime()
		select {
		case <-changes:
		case <-time.After(wait):
		case <-ctx.Done():
			n.Fatalf("%s: no verdict: %s\n%s", d.Name, verdict.Reason, n.journal())
		}
	}
}

func (n *node) journal() string {
	return n.Command(n.T, "journalctl", "--no-pager", "-n", "60")
}

func (n *node) current() generation.Manifest {
	n.Helper()
	m, _, err := n.executor.Current()
	if err != nil {
		n.Fatal(err)
	}
	return m
}

// invocations returns the InvocationID of each unit of m that runs.
func (n *node) invocations(m generation.Manifest) map[string]string {
	n.Helper()
	var names []string
	for _, u := range m.Units {
		if !unitfile.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}

	states, err := n.systemd.Show(n.Context(), names)
	if err != nil {
		n.Fatal(err)
	}

	ids := map[string]string{}
	for _, s := range states {
		ids[s.Name] = s.InvocationID
	}

	return ids
}

// restarted returns the units that ran before, and run now as another process.
func restarted(before, after map[string]string) []string {
	var names []string
	for name, id := range after {
		if before[name] != "" && id != "" && before[name] != id {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func touches(p plan.Plan, name string) bool {
	return slices.ContainsFunc(p.Units, func(a plan.Action) bool { return a.Unit == name })
}

func onDemand(m generation.Manifest, name string) bool {
	return slices.ContainsFunc(m.Units, func(u generation.Unit) bool {
		return u.Name == name && u.OnDemand
	})
}

// stubs is a content.Provider that has one program for every file of an image.
type stubs struct{ program []byte }

// Secret implements [content.Provider]: documents of hosted Shoots refer to
// none.
func (stubs) Secret(_ context.Context, name, key string) (config.Content, error) {
	return config.Content{}, fmt.Errorf("%s of Secret %s: %w", key, name, content.ErrAbsent)
}

// Image implements [content.Provider].
func (s stubs) Image(context.Context, string, string) (config.Content, error) {
	return config.Inline(s.program), nil
}
