// Package pods is what a container runtime runs for the kubelet, by the
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

// pauses are those between tries: five of these, and what systemd restarts
// meanwhile is back.
var pauses = [...]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

const (
	// answer is how long the runtime may take to list, remove how long to stop
	// a pod and take it away: the network plugins have a part in that.
	answer = 10 * time.Second
	remove = time.Minute
	// atOnce is how many pods go at a time.
	atOnce = 8
)

// Runtime is a container runtime.
type Runtime struct {
	// Socket is the path of its socket; "" is Socket.
	Socket string
	// Wait waits between two tries; nil for the time itself.
	Wait func(ctx context.Context, d time.Duration)
}

// List names the pods that the runtime has, running or not, as namespace/name.
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

// RemoveAll stops and removes every pod. What does not succeed is tried five
// times; one pod does not keep it from the others. The error is the last try's.
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

// dial connects anew: gRPC would not look again at once for what was not there.
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

// removeAll is one try.
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

	_ = group.Wait() // Its functions return none.
	return errors.Join(errs...)
}

// removeOne stops a pod, with which its containers are killed, and removes it.
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
