package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	images "github.com/containerd/containerd/api/services/images/v1"
	leaseapi "github.com/containerd/containerd/api/services/leases/v1"
	"github.com/containerd/containerd/v2/core/content"
	contentproxy "github.com/containerd/containerd/v2/core/content/proxy"
	"github.com/containerd/containerd/v2/core/leases"
	leaseproxy "github.com/containerd/containerd/v2/core/leases/proxy"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// namespace is our namespace of containerd. The kubelet, which cleans up
// k8s.io, does not see our images, and other clients' images do not become
// visible through ours.
const namespace = "loam"

// ErrNotRunning is returned if nothing answers at containerd's socket, as
// before its service has started.
var ErrNotRunning = fault.With(errors.New("containerd does not answer"), fault.RuntimeUnreachable)

// session is one connection to containerd. Each job makes a new one: after an
// outage of containerd, an old one would keep failing until its backoff ends.
type session struct {
	content content.Store
	images  images.ImagesClient
	leases  leases.Manager
	conn    *grpc.ClientConn
	// cancel ends the session's context.
	cancel context.CancelFunc
	// hung says that a request has timed out.
	hung *atomic.Bool
}

// connect returns the context for all requests of the session. It fails quickly
// if containerd hangs.
func (r *Registry) connect(ctx context.Context) (context.Context, *session, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
	}

	first, err := dial(ctx, "")
	if err != nil {
		return nil, nil, hint.With(fmt.Errorf("%w: %w", ErrNotRunning, err),
			"the agent retries; systemctl status containerd")
	}

	first.Close() // gRPC would say less, and later.
	if err := r.answers(ctx); err != nil {
		return nil, nil, err
	}

	limits := r.limits
	limits.hung = &atomic.Bool{}
	conn, err := grpc.NewClient("passthrough:///containerd", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(limits.call), grpc.WithStreamInterceptor(limits.stream))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to containerd: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	ctx = log.WithLogger(namespaces.WithNamespace(ctx, namespace), silent())
	return ctx, &session{
		content: contentproxy.NewContentStore(conn),
		images:  images.NewImagesClient(conn),
		leases:  leaseproxy.NewLeaseManager(leaseapi.NewLeasesClient(conn)),
		conn:    conn,
		cancel:  cancel,
		hung:    limits.hung,
	}, nil
}

// close ignores errors, which no caller could handle.
func (s *session) close() {
	s.cancel()
	_ = s.conn.Close()
}

// silent is the logger for containerd's packages, which would log every request
// to a registry. Their errors are returned.
func silent() *log.Entry {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logrus.NewEntry(logger)
}
