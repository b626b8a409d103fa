package local

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/addons"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
)

// Pauses of [Node.Run] while the API server does not answer, or refuses something.
// minRetry is also the least time between two looks at a cluster that is well: a
// watch may end at once, and what others write into the ConfigMap restarts
// programs.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// repairInterval is how often add-ons are applied that have not changed, so that
// what was changed or deleted in the cluster is put back.
const repairInterval = time.Hour

// configMaps is the path of the ConfigMap with the record, without its name.
const configMaps = "/api/v1/namespaces/" + plane.RecordNamespace + "/configmaps"

// applied is when which add-ons were applied last.
type applied struct {
	digest [sha256.Size]byte
	at     time.Duration
}

// progress is what Run knows of its sessions.
type progress struct {
	addOns applied
	// problem was reported last, "" if none.
	problem string
	// pause is how long the next try waits after a problem.
	pause time.Duration
}

// Run keeps the cluster as the record says, until ctx ends: the ConfigMap with the
// record, and the objects of the add-ons. It follows changes of both. It waits
// until the node has a cluster.
func (n *Node) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-n.begun:
	}

	changes, err := source.File{Path: filepath.Join(n.Root, plane.RecordFile)}.Watch(ctx)
	if err != nil {
		n.Log.Error("watch the cluster record", zap.Error(err))
		return
	}

	p := progress{pause: minRetry}
	for ctx.Err() == nil {
		next := time.After(minRetry)
		err := n.session(ctx, changes, &p)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			select {
			case <-ctx.Done():
			case <-next:
			}
			continue
		}

		n.reportProblem(&p, err)
		select {
		case <-ctx.Done():
		case _, open := <-changes:
			if !open {
				return // ctx has ended, or files cannot be watched any longer.
			}
		case <-time.After(p.pause):
		}
		p.pause = min(2*p.pause, maxRetry)
	}
}

// session makes the cluster as the record says, and waits until one of them has
// changed, or some minutes are over. What is refused is reported and keeps nothing
// else back: the session ends earlier then, so that it is tried again. The error is
// that the API server does not answer.
func (n *Node) session(ctx context.Context, changes <-chan struct{}, p *progress) error {
	server, err := n.API()
	if err != nil {
		return err
	}
	defer server.Close()

	r, version, refused := n.agree(ctx, server)
	if version == "" {
		return refused
	}
	for _, err := range []error{
		n.applyAddOns(ctx, server, r, &p.addOns),
		labelNode(ctx, server, n.Name),
	} {
		if refused == nil {
			refused = err
		}
	}
	if refused == nil {
		*p = progress{addOns: p.addOns, pause: minRetry}
		n.report(func(c *status.OwnCluster) {
			*c = status.OwnCluster{Name: r.Name, Kubernetes: r.Kubernetes, Ready: true}
		})
		return awaitChange(ctx, server, version, changes)
	}

	n.reportProblem(p, refused)
	watching, cancel := context.WithTimeout(ctx, p.pause)
	defer cancel()
	p.pause = min(2*p.pause, maxRetry)
	err = awaitChange(watching, server, version, changes)
	if errors.Is(watching.Err(), context.DeadlineExceeded) {
		return nil
	}
	return err
}

// reportProblem reports why the cluster is not as its record says, and logs it
// once. A fetch is reported by itself.
func (n *Node) reportProblem(p *progress, err error) {
	problem := hint.Line(err)
	if errors.Is(err, source.ErrFetching) {
		problem = ""
	}
	if problem != "" && problem != p.problem {
		n.Log.Warn("the cluster is not as its record says yet", zap.String("error", problem))
	}

	p.problem = problem
	n.report(func(c *status.OwnCluster) {
		c.Ready = false
		c.Problem = problem
	})
}

// State returns how the cluster is.
func (n *Node) State() *status.OwnCluster {
	state := n.state.Load()
	if progress := n.bundles.progress(); progress != "" {
		fetching := *state
		fetching.Ready = false
		fetching.Problem = progress
		return &fetching
	}
	return state
}

// Changed receives a value when State may return a different one.
func (n *Node) Changed() <-chan struct{} { return n.changed }

// report changes the state. Only the goroutine of Run calls it, and begin before
// that.
func (n *Node) report(change func(*status.OwnCluster)) {
	next := *n.state.Load()
	change(&next)
	if next == *n.state.Load() {
		return
	}

	n.state.Store(&next)
	notify(n.changed)
}

// roleLabel shows in `kubectl get nodes` that a node has a control plane. A kubelet
// must not give it to itself.
const roleLabel = "node-role.kubernetes.io/control-plane"

// labelNode gives the Node of that name its label. The kubelet makes the Node.
func labelNode(ctx context.Context, server *api.Client, name string) error {
	at := "/api/v1/nodes/" + name
	var object struct {
		Metadata struct{ Labels map[string]string }
	}
	err := server.Do(ctx, http.MethodGet, at, nil, &object)
	if api.IsNotFound(err) {
		return fmt.Errorf("the kubelet has not registered the Node %s yet", name)
	}
	if err != nil {
		return fmt.Errorf("read the Node: %w", err)
	}
	if _, has := object.Metadata.Labels[roleLabel]; has {
		return nil
	}

	labels := map[string]any{"metadata": map[string]any{"labels": map[string]string{roleLabel: ""}}}
	err = server.Merge(ctx, at, labels)
	if err != nil {
		return fmt.Errorf("label the Node: %w", err)
	}
	return nil
}

// errChanged ends a watch.
var errChanged = errors.New("changed")

// awaitChange returns nil when the ConfigMap is another than that version, when
// the record has changed, or after some minutes.
func awaitChange(
	ctx context.Context, server *api.Client, version string, changes <-chan struct{},
) error {
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	done := make(chan struct{})
	defer func() {
		cancel(nil)
		<-done
	}()
	go func() {
		defer close(done)
		select {
		case <-watching.Done():
		case _, open := <-changes:
			if open {
				cancel(errChanged)
			}
		}
	}()

	err := server.Watch(watching, configMaps, plane.RecordName, version,
		func() error { return errChanged })
	if errors.Is(err, errChanged) || errors.Is(context.Cause(watching), errChanged) {
		return nil
	}
	return err
}

// published is the ConfigMap with the record.
type published struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data"`
}

type metadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// agree makes the record of the node and the ConfigMap the same, and returns it,
// and the version of the ConfigMap. If the ConfigMap is refused, that is the record
// of the node; the version is "" if the ConfigMap could not be read.
func (n *Node) agree(ctx context.Context, server *api.Client) (plane.Record, string, error) {
	own, found, err := n.Store.Record()
	if err == nil && !found {
		err = errors.New("this node has no cluster record")
	}
	if err != nil {
		return own, "", err
	}
	object, record, err := n.readPublished(ctx, server)
	version := object.Metadata.ResourceVersion
	if err != nil {
		return own, version, err
	}
	last, err := n.lastAgreed(own, record)
	if err != nil {
		return own, version, err
	}

	agreed := own
	switch plane.Agree(last, own, record) {
	case plane.Publish:
		err = checkChange(n.Store, plane.RecordFile, own.Text(), own)
		if err == nil {
			err = n.Store.WritePending(own)
		}
		if err == nil {
			version, err = publish(ctx, server, own, version)
		}
	case plane.Follow:
		agreed = *record
		err = n.follow(ctx, own, agreed)
		if err == nil && last != nil && string(last.Text()) != string(own.Text()) {
			n.Log.Warn("record and ConfigMap have changed, and the ConfigMap counts",
				zap.ByteString("dropped", own.Text()))
		}
	}
	if err != nil {
		return own, version, err
	}

	if last == nil || string(last.Text()) != string(agreed.Text()) {
		err = n.Store.WritePublished(agreed)
	}
	return agreed, version, err
}

// lastAgreed returns what the record of the node and the ConfigMap last agreed on,
// nil before the first time.
func (n *Node) lastAgreed(own plane.Record, published *plane.Record) (*plane.Record, error) {
	last, err := n.Store.Published()
	if err != nil {
		return nil, err
	}
	pending, err := n.Store.Pending()
	if err != nil {
		return nil, err
	}

	base := plane.Base(last, pending, own, published)
	if base == last {
		return last, nil
	}
	return base, n.Store.WritePublished(*base)
}

// follow replaces the record of the node by that of the ConfigMap, unless the
// cluster cannot have it.
func (n *Node) follow(ctx context.Context, own, record plane.Record) error {
	_, err := DecodeChange(ctx, n.Store, n.Root, plane.PublishedName, record.Text(), own)
	if err != nil {
		return err
	}

	n.Log.Info("follow the record of the ConfigMap", zap.String("cluster", own.Name))
	err = n.Store.WritePending(record)
	if err != nil {
		return err
	}
	return n.Store.ReplaceRecord(own, record)
}

// readPublished returns the ConfigMap, and the record in it, nil if it has none. It
// logs fields that are not known, once.
func (n *Node) readPublished(
	ctx context.Context, server *api.Client,
) (published, *plane.Record, error) {
	var object published
	err := server.Do(ctx, http.MethodGet, path.Join(configMaps, plane.RecordName), nil, &object)
	if api.IsNotFound(err) {
		return object, nil, nil
	}
	if err != nil {
		return object, nil, fmt.Errorf("read the record of the cluster: %w", err)
	}

	text, found := object.Data[plane.RecordField]
	if !found {
		return object, nil, nil
	}
	r, unknown, err := plane.DecodePublished(text)
	if err != nil {
		return object, nil, err
	}

	var problem string
	if len(unknown) > 0 {
		problem = unknown.Error()
	}
	if problem != "" && problem != n.unknown {
		n.Log.Warn("fields of the ConfigMap are ignored", zap.String("problem", problem))
	}
	n.unknown = problem
	return object, &r, nil
}

// publish writes the ConfigMap, unless it has another version by now, and returns
// its new version.
func publish(
	ctx context.Context, server *api.Client, r plane.Record, version string,
) (string, error) {
	object := published{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Metadata:   metadata{plane.RecordName, plane.RecordNamespace, version},
		Data:       map[string]string{plane.RecordField: string(r.Text())},
	}
	at := path.Join(configMaps, plane.RecordName)
	var written published
	err := server.Apply(ctx, at, addons.Manager, object, &written)
	if err != nil {
		return "", fmt.Errorf("publish the record of the cluster: %w", err)
	}
	return written.Metadata.ResourceVersion, nil
}

// applyAddOns applies the add-ons of a record if they have changed, or if it is
// long ago. A record that is refused never runs, so its add-ons must not, and
// those of an upgrade come last.
func (n *Node) applyAddOns(
	ctx context.Context, server *api.Client, r plane.Record, last *applied,
) error {
	if err := checkChange(n.Store, plane.RecordFile, r.Text(), r); err != nil {
		return err
	}
	if err := checkEtcd(ctx, n.Store, n.Root, plane.RecordFile, r.Text(), r); err != nil {
		return err
	}
	if err := checkPrograms(ctx, n.Store, n.Root, r); err != nil {
		return err
	}
	b, err := n.bundles.open(r)
	if err != nil {
		return err
	}
	objects, err := objectsOf(r, b)
	if err != nil {
		return err
	}

	now := applied{digestOf(objects), n.Uptime()}
	if last.at > 0 && now.digest == last.digest && now.at-last.at < repairInterval {
		return nil
	}
	err = addons.Reconcile(ctx, server, objects)
	if err != nil {
		return err
	}
	if now.digest != last.digest {
		n.Log.Info("applied the add-ons of the cluster", zap.Strings("addOns", r.AddOns))
	}
	*last = now
	return nil
}

func digestOf(objects []addons.Object) [sha256.Size]byte {
	sum := sha256.New()
	for _, o := range objects {
		// It holds nothing that JSON cannot express.
		_ = json.NewEncoder(sum).Encode(o.Body())
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
