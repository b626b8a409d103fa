package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/cluster/credentials"
)

// kubeletAPI is the API server as the kubelet of a Node reaches it. Every cluster
// lets a kubelet change its own Node, and list, evict and delete its own pods. It
// implements [drain.API].
type kubeletAPI struct {
	*api

	// node is the name of the Node, now the wall clock.
	node string
	now  func() time.Time

	// last is the Node as the last patch left it, nil before that.
	last *core.Node
}

// newKubeletAPI returns the API server with the kubelet's certificate as it is
// now; it must be closed. If the kubelet has no certificate, because it was given
// other credentials, those of who are used.
func newKubeletAPI(
	env Env, config Config, who credentials.Credentials, node string,
) (*kubeletAPI, error) {
	kubelet, err := credentials.Open(env.Root).Kubelet()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kubelet = who
	case err != nil:
		return nil, err
	}

	a, err := newAPI(config.target().REST(kubelet, ""))
	if err != nil {
		return nil, err
	}
	return &kubeletAPI{api: a, node: node, now: env.Now}, nil
}

// Now implements [drain.API].
func (k *kubeletAPI) Now() time.Time { return k.now() }

// Node implements [drain.API].
func (k *kubeletAPI) Node(ctx context.Context) (*core.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	n := &core.Node{}
	if err := k.core.Get().Resource("nodes").Name(k.node).Do(ctx).Into(n); err != nil {
		return nil, fmt.Errorf("get Node %s: %w", k.node, err)
	}
	return n, nil
}

// PatchNode implements [drain.API].
func (k *kubeletAPI) PatchNode(ctx context.Context, patch []byte) (*core.Node, error) {
	return k.patch(ctx, "", mergePatch, patch)
}

// PatchStatus implements [drain.API].
func (k *kubeletAPI) PatchStatus(ctx context.Context, patch []byte) (*core.Node, error) {
	return k.patch(ctx, "status", strategicPatch, patch)
}

func (k *kubeletAPI) patch(
	ctx context.Context, part string, kind types.PatchType, patch []byte,
) (*core.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	w := &world{node: &core.Node{ObjectMeta: meta.ObjectMeta{Name: k.node}}}
	if err := k.patchNode(ctx, w, part, kind, patch); err != nil {
		return nil, err
	}
	k.last = w.node
	return w.node, nil
}

// Pods implements [drain.API].
func (k *kubeletAPI) Pods(ctx context.Context) ([]core.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	list := &core.PodList{}
	err := podsOf(k.api, k.node).with(k.core.Get(), &meta.ListOptions{}).Do(ctx).Into(list)
	if err != nil {
		return nil, fmt.Errorf("list the pods of Node %s: %w", k.node, err)
	}
	return list.Items, nil
}

// Evict implements [drain.API]. client-go would wait and try again by itself
// after an answer with Retry-After.
func (k *kubeletAPI) Evict(ctx context.Context, pod *core.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	return k.core.Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("eviction").
		Body(&policy.Eviction{
			ObjectMeta: meta.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &meta.DeleteOptions{
				Preconditions: &meta.Preconditions{UID: &pod.UID},
			},
		}).Do(ctx).Error()
}

// deletePods deletes all pods of the Node.
func (k *kubeletAPI) deletePods(ctx context.Context) error {
	pods, err := k.Pods(ctx)
	if err != nil {
		return err
	}

	for _, p := range pods {
		err := k.core.Delete().Namespace(p.Namespace).Resource("pods").Name(p.Name).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}

	return nil
}
