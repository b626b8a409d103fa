// Package rollout reads and changes the ledger by which the nodes of a pool take
// turns, for a person with a kubeconfig. It has no rights of its own.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

const (
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	nodesPath  = "/api/v1/nodes"
	prefix     = "loam-rollout-"

	// markAnnotation is the mark of a Node that has a turn.
	markAnnotation = "loam.dev/turn"

	// failedAnnotation and failedSystemAnnotation are what a Node remembers of a
	// configuration and a system that failed there.
	failedAnnotation       = "loam.dev/failed"
	failedSystemAnnotation = "loam.dev/failed-system"

	// retryAnnotation are the targets of those, separated by commas, that the node
	// is to try once more.
	retryAnnotation = "loam.dev/retry"
)

// stopAnnotations are those of a ledger by which its nodes stand still.
var stopAnnotations = []string{
	"rollout.loam.dev/state",
	"rollout.loam.dev/why",
	"rollout.loam.dev/halted",
}

// tries is how often a concurrent writer of a Node may come first, and patience for how
// long one of a ledger, which the nodes of a large pool write many times a second.
// tryPause is between two attempts.
const (
	tries    = 10
	patience = time.Minute
	tryPause = 50 * time.Millisecond
)

// API is a server of the Kubernetes API; see kubeconfig.Server.
type API interface {
	Do(ctx context.Context, method, path string, body, into any) error
	List(ctx context.Context, path, selector string) ([]kubeconfig.Object, error)
	Table(ctx context.Context, path, selector string, details bool) (kubeconfig.Table, error)
}

// Rollout is the rollout of one pool.
type Rollout struct {
	API  API
	Pool string
}

// Read returns the ledger of the pool.
func (r Rollout) Read(ctx context.Context) (turns.Ledger, error) {
	l, _, err := r.read(ctx)
	return l, err
}

// read returns the ledger and its Lease.
func (r Rollout) read(ctx context.Context) (turns.Ledger, map[string]any, error) {
	lease, err := r.lease(ctx)
	if err != nil {
		return turns.Ledger{}, nil, err
	}

	l, err := turns.ReadLedger(annotationsOf(lease))
	if err != nil {
		err = fmt.Errorf("read the ledger of pool %s: %w", r.Pool, err)
	}
	return l, lease, err
}

// lease returns the Lease of the ledger. In Gardener, it has the name of the
// Secret with the configuration, which is given as the pool then.
func (r Rollout) lease(ctx context.Context) (map[string]any, error) {
	for _, name := range []string{prefix + r.Pool, r.Pool} {
		var lease map[string]any
		err := do(ctx, r.API, http.MethodGet, leasesPath, name, nil, &lease)
		switch {
		case isStatus(err, http.StatusNotFound):
		case err != nil:
			return nil, fmt.Errorf("read the ledger of pool %s: %w", r.Pool, err)
		case turns.IsLedger(annotationsOf(lease)):
			return lease, nil
		}
	}
	return nil, r.missing(ctx)
}

// missing is the error for a pool without a ledger. It names those that have
// one.
func (r Rollout) missing(ctx context.Context) error {
	pools, err := Pools(ctx, r.API)
	if err != nil {
		return err
	}
	err = fmt.Errorf("pool %s has no ledger", r.Pool)
	if len(pools) == 0 {
		return hint.With(err, "nodes make one when the first of them needs a turn by a policy")
	}
	return hint.With(err, "pools with a ledger: %s", strings.Join(pools, ", "))
}

// Pools returns the pools that have a ledger.
func Pools(ctx context.Context, api API) ([]string, error) {
	leases, err := api.List(ctx, leasesPath, "")
	if err != nil {
		return nil, fmt.Errorf("list the ledgers: %w", err)
	}

	var pools []string
	for _, l := range leases {
		if turns.IsLedger(l.Metadata.Annotations) {
			pools = append(pools, strings.TrimPrefix(l.Metadata.Name, prefix))
		}
	}
	return pools, nil
}

// Change makes the ledger what edit returns for it, and returns that. After a
// concurrent write it reads the ledger again.
func (r Rollout) Change(
	ctx context.Context, edit func(turns.Ledger) (turns.Ledger, error),
) (turns.Ledger, error) {
	return change(ctx, r, edit, update)
}

// change is [Rollout.Change] with a way to write the annotations of the Lease.
func change(
	ctx context.Context, r Rollout, edit func(turns.Ledger) (turns.Ledger, error),
	write func(ctx context.Context, api API, lease map[string]any, to map[string]string) error,
) (turns.Ledger, error) {
	begun := time.Now()
	for try := 1; ; try++ {
		l, lease, err := r.read(ctx)
		if err != nil {
			return turns.Ledger{}, err
		}
		l, err = edit(l)
		if err != nil {
			return turns.Ledger{}, err
		}

		err = write(ctx, r.API, lease, l.Annotations(annotationsOf(lease)))
		if err == nil {
			return l, nil
		}

		// A patch is invalid if a value has changed, or for good.
		again := isStatus(err, http.StatusConflict) ||
			(isStatus(err, http.StatusUnprocessableEntity) && try < tries)
		if !again || time.Since(begun) > patience {
			return turns.Ledger{}, fmt.Errorf("write the ledger of pool %s: %w", r.Pool, err)
		}
		select {
		case <-time.After(tryPause):
		case <-ctx.Done():
			return turns.Ledger{}, ctx.Err()
		}
	}
}

// update writes a Lease with other annotations, unless it has changed since it was read.
func update(ctx context.Context, api API, lease map[string]any, to map[string]string) error {
	metadata, _ := lease["metadata"].(map[string]any)
	metadata["annotations"] = to
	return do(ctx, api, http.MethodPut, leasesPath, nameOf(lease), lease, nil)
}

// operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// patchStop writes only the annotations of a Lease by which its nodes stand still, unless
// one of those has changed since it was read: a halt that is written at the same time
// must stay, and a ledger that is being restored must not look like one that is not.
func patchStop(ctx context.Context, api API, lease map[string]any, to map[string]string) error {
	before := annotationsOf(lease)
	var patch []operation
	for _, key := range stopAnnotations {
		path := "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
		was, isSet := before[key]
		if isSet {
			patch = append(patch, operation{Op: "test", Path: path, Value: was})
		}
		if now, ok := to[key]; ok && (!isSet || now != was) {
			patch = append(patch, operation{Op: "add", Path: path, Value: now})
		}
	}
	return do(ctx, api, http.MethodPatch, leasesPath, nameOf(lease), patch, nil)
}

// do makes a request about the object with that name among those at path. The name may be
// what a node has written: it must not lead to an object of another kind. There is none with
// a name that does.
func do(ctx context.Context, api API, method, path, name string, body, into any) error {
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return &kubeconfig.StatusError{
			Code:    http.StatusNotFound,
			Message: fmt.Sprintf("no object has the name %.80q", name),
		}
	}
	return api.Do(ctx, method, path+"/"+url.PathEscape(name), body, into)
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// errRestoring means that a node makes a ledger again that was deleted.
var errRestoring = hint.With(
	fault.With(errors.New("the ledger is being restored"), fault.Busy), "try again")

// Pause lets no node begin until Resume. It returns also why the pool was paused
// before, "" if it was not. The nodes of a busy pool write the ledger between each read
// and the write that follows, so it does not depend on what else they write. Whoever may
// not patch the Lease has to come first once.
func (r Rollout) Pause(
	ctx context.Context, why string,
) (l turns.Ledger, before string, err error) {
	edit := func(l turns.Ledger) (turns.Ledger, error) {
		if l.State == turns.Restoring {
			return l, errRestoring
		}
		before = ""
		if l.State == turns.Paused {
			before = cmp.Or(line(l.Why), "without a reason")
		}
		return l.Pause(why), nil
	}

	l, err = change(ctx, r, edit, patchStop)
	if isStatus(err, http.StatusForbidden) {
		l, err = r.Change(ctx, edit)
	}
	return l, before, err
}

// Resume lets nodes begin again: it ends a pause or, in a pool that is not paused,
// halts.
func (r Rollout) Resume(ctx context.Context) (turns.Ledger, error) {
	return r.Change(ctx, func(l turns.Ledger) (turns.Ledger, error) {
		if l.State == turns.Restoring {
			return l, errRestoring
		}
		return l.Resume(), nil
	})
}

// Hurry lets more nodes change at once for a time.
func (r Rollout) Hurry(ctx context.Context, h turns.Hurry) (turns.Ledger, error) {
	return r.Change(ctx, func(l turns.Ledger) (turns.Ledger, error) {
		l.Hurry = &h
		return l, nil
	})
}

// editNode changes the annotations of a Node by edit, which reports whether it has
// changed them. After a concurrent write it reads the Node again.
func (r Rollout) editNode(
	ctx context.Context, node string, edit func(annotations map[string]any) (bool, error),
) error {
	for try := 1; ; try++ {
		var object map[string]any
		if err := do(ctx, r.API, http.MethodGet, nodesPath, node, nil, &object); err != nil {
			return err
		}

		metadata, _ := object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
		}
		changed, err := edit(annotations)
		if err != nil || !changed {
			return err
		}

		metadata["annotations"] = annotations
		err = do(ctx, r.API, http.MethodPut, nodesPath, node, object, nil)
		if err == nil || !isStatus(err, http.StatusConflict) || try == tries {
			return err
		}
	}
}

func annotationsOf(object map[string]any) map[string]string {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return textsOf(annotations)
}

func textsOf(annotations map[string]any) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		out[key], _ = value.(string)
	}
	return out
}

func isStatus(err error, code int) bool {
	var status *kubeconfig.StatusError
	return errors.As(err, &status) && status.Code == code
}

// Describe says what a policy allows in a pool of that size, as of now.
func Describe(p turns.Policy, size int, now time.Time) string {
	// After the chunks of a policy, all other nodes may begin.
	var chunks []string
	last := 0
	for _, c := range append(slices.Clone(p.Chunks), turns.Amount{Percent: 100}) {
		end := min(c.Of(size), size)
		if end > last || len(chunks) == 0 {
			chunks = append(chunks, strconv.Itoa(end))
			last = end
		}
	}

	away := min(p.MayBeAway(size), size)
	text := fmt.Sprintf("valid; of %d nodes, %d may be away", size, away)
	if holders := turns.MaxHolders(); away > holders {
		text += fmt.Sprintf(", but a ledger holds the turns of about %d", holders)
	}
	text += "; chunks end at " + strings.Join(chunks, ", ")
	if opens := p.Opens(now); opens.After(now) {
		text += ", from " + opens.UTC().Format(time.RFC3339)
	}
	return text
}
