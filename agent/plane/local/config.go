package local

import (
	"context"
	"net/netip"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
)

// Config is what [New] makes a node of.
type Config struct {
	Store plane.Store

	// Root is the path of the root directory. Image is the root directory of
	// the image, without anything mounted over it.
	Root  string
	Image *os.Root

	// Name is the host name.
	Name string

	// Addresses returns the addresses of the node, the best one first.
	Addresses func() ([]netip.Addr, error)

	// Uptime is the time since kernel start.
	Uptime func() time.Duration

	// Fetch brings the bundle of a version of Kubernetes to the node, unless it is
	// there; nil if no repository has any. It calls progress with the bytes that are
	// there, and with the bytes that the bundle has.
	Fetch func(ctx context.Context, version string, progress func(done, all int64)) error

	// Go runs a function beside the loop. The agent does not end before it has returned.
	Go func(func())

	// Prune removes the bundles of versions before one, except those that the node may
	// go back to; nil if the node has no repository that could bring them again.
	Prune func(oldest string) error

	// NetworkChanges notifies of changes of the addresses until ctx ends.
	NetworkChanges func(ctx context.Context) (<-chan struct{}, error)

	// First says that the node has no cluster yet: the record is that of
	// machine.yaml, and Decode makes the cluster.
	First bool

	// FsyncP99 is the 99th percentile of the time of a sync of etcd's disk, for a
	// node that has no cluster yet.
	FsyncP99 time.Duration

	// Current returns the digest of the configuration that the node runs, "" if
	// none, and whether it is on trial.
	Current func() (digest string, trying bool, err error)

	// API returns a client of the node's API server, for [Follower.Run].
	API func() (*api.Client, error)

	// Built is the date of the image's kernel, Now the wall clock.
	Built time.Time
	Now   func() time.Time

	Log *zap.Logger
}
