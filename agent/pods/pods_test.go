package pods

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containers is a runtime in memory. Like containerd it refuses to remove a pod
// that has not been stopped.
type containers struct {
	cri.UnimplementedRuntimeServiceServer
	mu      sync.Mutex
	have    map[string]cri.PodSandboxState
	asked   []string
	refuses map[string]int // how often it still refuses a request: "list", "stop a"
}

func (c *containers) ask(what string) error {
	c.asked = append(c.asked, what)
	if c.refuses[what] > 0 {
		c.refuses[what]--
		return errors.New("not now")
	}
	return nil
}

func (c *containers) ListPodSandbox(
	context.Context, *cri.ListPodSandboxRequest,
) (*cri.ListPodSandboxResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.ask("list"); err != nil {
		return nil, err
	}

	var all []*cri.PodSandbox
	for id, state := range c.have {
		all = append(all,
			&cri.PodSandbox{
				Id:       id,
				State:    state,
				Metadata: &cri.PodSandboxMetadata{Namespace: "default", Name: "pod-" + id},
			})
	}

	slices.SortFunc(all, func(a, b *cri.PodSandbox) int { return strings.Compare(a.Id, b.Id) })
	return &cri.ListPodSandboxResponse{Items: all}, nil
}

func (c *containers) StopPodSandbox(
	_ context.Context, r *cri.StopPodSandboxRequest,
) (*cri.StopPodSandboxResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ask("stop " + r.PodSandboxId); err != nil {
		return nil, err
	}
	c.have[r.PodSandboxId] = cri.PodSandboxState_SANDBOX_NOTREADY
	return &cri.StopPodSandboxResponse{}, nil
}

func (c *containers) RemovePodSandbox(
	_ context.Context, r *cri.RemovePodSandboxRequest,
) (*cri.RemovePodSandboxResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.ask("remove " + r.PodSandboxId); err != nil {
		return nil, err
	}
	if c.have[r.PodSandboxId] == cri.PodSandboxState_SANDBOX_READY {
		return nil, errors.New("it runs")
	}

	delete(c.have, r.PodSandboxId)
	return &cri.RemovePodSandboxResponse{}, nil
}

// serve serves c on socket until the end of the test.
func (c *containers) serve(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, c)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()

	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestRemoveAll(t *testing.T) {
	const up, down = cri.PodSandboxState_SANDBOX_READY, cri.PodSandboxState_SANDBOX_NOTREADY
	for _, tt := range []struct {
		name    string
		have    map[string]cri.PodSandboxState
		refuses map[string]int
		left    []string
		pauses  int
		wantErr string
	}{
		{name: "a runtime without pods is asked once"},
		{
			name: "pods that run and pods that do not go",
			have: map[string]cri.PodSandboxState{"a": up, "b": down},
		},
		{
			name:    "a pod that goes at the third try",
			have:    map[string]cri.PodSandboxState{"a": up},
			refuses: map[string]int{"stop a": 2},
			pauses:  2,
		},
		{
			name:    "a list that comes at the second try",
			have:    map[string]cri.PodSandboxState{"a": up},
			refuses: map[string]int{"list": 1},
			pauses:  1,
		},
		{
			name:    "a pod that never goes does not keep the others",
			have:    map[string]cri.PodSandboxState{"a": up, "b": up, "c": up},
			refuses: map[string]int{"remove b": 9},
			left:    []string{"default/pod-b"},
			pauses:  4,
			wantErr: "remove default/pod-b: ",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &containers{have: tt.have, refuses: tt.refuses}
			socket := filepath.Join(t.TempDir(), "s")
			c.serve(t, socket)
			var waited []time.Duration
			r := Runtime{
				Socket: socket,
				Wait: func(_ context.Context, d time.Duration) {
					waited = append(waited, d)
				},
			}

			err := r.RemoveAll(t.Context())
			if (tt.wantErr == "" && err != nil) ||
				(tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr))) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}

			left, err := r.List(t.Context())
			if diff := cmp.Diff(tt.left, left); err != nil || diff != "" {
				t.Errorf("left (-want +got):\n%s%v", diff, err)
			}

			if len(waited) != tt.pauses || !slices.IsSorted(waited) {
				t.Errorf("waited %v, want %d growing pauses", waited, tt.pauses)
			}
		})
	}
}

func TestRuntimeThatIsNotThereIsTriedFiveTimes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	tries := 0
	r := Runtime{Socket: socket, Wait: func(context.Context, time.Duration) { tries++ }}
	if err := r.RemoveAll(t.Context()); err == nil ||
		!strings.Contains(err.Error(), socket) || tries != 4 {
		t.Errorf("after %d pauses: %v", tries, err)
	}
}

func TestRuntimeThatComesBackIsAsked(t *testing.T) {
	c := &containers{have: map[string]cri.PodSandboxState{"a": cri.PodSandboxState_SANDBOX_READY}}
	socket := filepath.Join(t.TempDir(), "s")
	started := false
	r := Runtime{
		Socket: socket,
		Wait: func(context.Context, time.Duration) {
			if !started {
				c.serve(t, socket)
			}
			started = true
		},
	}
	if err := r.RemoveAll(t.Context()); err != nil || len(c.have) > 0 {
		t.Errorf("left %v, %v", c.have, err)
	}
}

func TestEndOfTheContextEndsTheTries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := Runtime{
		Socket: filepath.Join(t.TempDir(), "s"),
		Wait:   func(context.Context, time.Duration) { cancel() },
	}
	if err := r.RemoveAll(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
