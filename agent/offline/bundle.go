package offline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/hint"
)

// askTimeout is how long the repository may take to say how large a bundle is.
const askTimeout = 15 * time.Second

// bundleNotes says how much the agent fetches before it applies a record whose
// programs the node does not have, and what a plan does not know until then.
func (n *Node) bundleNotes(ctx context.Context, before, after plane.Record) []config.Note {
	size := config.Note{Reason: config.NoteWarning}
	sizes, err := n.measure(ctx, after.Kubernetes)
	if err != nil {
		size.Problem = fmt.Sprintf("Kubernetes %s is not on this node, and its size is not known: %s",
			after.Kubernetes, err)
		size.Hint = hint.Of(err)
	} else {
		size.Problem = fmt.Sprintf(
			"Kubernetes %s is fetched first: %s, of which %s are new here, at most %s to transfer",
			after.Kubernetes, local.Megabytes(sizes.All), local.Megabytes(sizes.New),
			local.Megabytes(sizes.Fetched))
	}

	return []config.Note{size, {
		Reason: config.NoteWarning,
		Problem: fmt.Sprintf("the plan takes the pause image of Kubernetes %s; whether the new etcd "+
			"can take over the data is checked after the fetch", before.Kubernetes),
	}}
}

// etcdNote says that the plan is carried out in two steps.
func etcdNote(r plane.Record) config.Note {
	return config.Note{
		Reason: config.NoteWarning,
		Problem: fmt.Sprintf("etcd of Kubernetes %s is changed alone first, and the rest follows when "+
			"it has proved itself: there is no way back to the older etcd then", r.Kubernetes),
	}
}

// measure asks the repository how large the bundle of a version is.
func (n *Node) measure(ctx context.Context, version string) (bundle.Sizes, error) {
	ref := n.Status.Repository
	if ref == "" {
		return bundle.Sizes{}, hint.With(errors.New("the node has no repository"),
			"set upgrade.repository in machine.yaml, or put the bundle into %s/%s",
			bundle.Directory, version)
	}
	from, err := bundle.Known(ref, n.State)
	if err != nil {
		return bundle.Sizes{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return bundle.NewStore(durable.New(n.root, nil)).Measure(ctx, from, bundle.Request{
		Version: version,
		Arch:    runtime.GOARCH,
		Now:     time.Now(),
		Log:     zap.NewNop(),
	})
}
