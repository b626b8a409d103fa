// Package pods lists and removes the pods of a container runtime, by the
// Container Runtime Interface. It is the only importer of cri-api.
package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Socket is where containerd serves the interface.
const Socket = "/run/containerd/containerd.sock"

// pauses are the delays between tries. After all of them, services that systemd
// restarts meanwhile are back.
var pauses = [...]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

const (
	// answer is the timeout for listing pods, remove the one for stopping and
	// removing a pod, in which the network plugins take part.
	answer = 10 * time.Second
	remove = time.Minute
	// atOnce is how many pods are removed concurrently.
	atOnce = 8
)

// Runtime is a container runtime.
type Runtime struct {
	// Socket is the path of its socket; the default is Socket.
	Socket string
	// Wait waits between two tries; nil uses the clock.
	Wait func(ctx context.Context, d time.Duration)
}

// List returns the pods of the runtime, running or not, as namespace/name.
func (r Runtime) List(ctx context.Context) ([]string, error) {
	var names []string
	err := r.dial(func(runtime cri.RuntimeServiceClient) error {
		all, err := list(ctx, runtime)
		for _, p := range all {
			names = append(names, nameOf(p))
		}
		return err
	})
	return names, err
}

// RemoveAll stops and removes every pod. It retries failures, and a failing pod
// does not block the others. It returns the error of the last try.
func (r Runtime) RemoveAll(ctx context.Context) error {
	try := func() error {
		return r.dial(func(runtime cri.RuntimeServiceClient) error {
			return removeAll(ctx, runtime)
		})
	}

	err := try()
	for _, pause := range pauses {
		if err == nil {
			break
		}
		r.wait(ctx, pause)
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		err = try()
	}

	return err
}

// dial opens a new connection for each try: gRPC would delay another try on a
// connection that failed.
func (r Runtime) dial(do func(cri.RuntimeServiceClient) error) error {
	socket := cmp.Or(r.Socket, Socket)
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("dial %s: %w", socket, err)
	}
	defer conn.Close()

	if err := do(cri.NewRuntimeServiceClient(conn)); err != nil {
		return fmt.Errorf("pods at %s: %w", socket, err)
	}

	return nil
}

func (r Runtime) wait(ctx context.Context, d time.Duration) {
	if r.Wait != nil {
		r.Wait(ctx, d)
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func list(ctx context.Context, runtime cri.RuntimeServiceClient) ([]*cri.PodSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	all, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return all.GetItems(), nil
}

// removeAll makes one try.
func removeAll(ctx context.Context, runtime cri.RuntimeServiceClient) error {
	all, err := list(ctx, runtime)
	if err != nil {
		return err
	}

	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(atOnce)

	for i, p := range all {
		group.Go(func() error {
			errs[i] = removeOne(ctx, runtime, p)
			return nil
		})
	}

	_ = group.Wait() // The functions return no error.
	return errors.Join(errs...)
}

// removeOne stops a pod, which kills its containers, and removes it.
func removeOne(ctx context.Context, runtime cri.RuntimeServiceClient, p *cri.PodSandbox) error {
	ctx, cancel := context.WithTimeout(ctx, remove)
	defer cancel()
	if _, err := runtime.StopPodSandbox(ctx,
		&cri.StopPodSandboxRequest{PodSandboxId: p.GetId()}); err != nil {
		return fmt.Errorf("stop %s: %w", nameOf(p), err)
	}

	_, err := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.GetId()})
	if err != nil {
		return fmt.Errorf("remove %s: %w", nameOf(p), err)
	}

	return nil
}

func nameOf(p *cri.PodSandbox) string {
	return p.GetMetadata().GetNamespace() + "/" + p.GetMetadata().GetName()
}
