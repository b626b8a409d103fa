package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	watching "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// watchBackoff is the pause of a watch after an error. With it, the node is
// back within two seconds of the API server. The pause stays at Cap once it
// gets there.
func watchBackoff() *wait.Backoff {
	return &wait.Backoff{
		Duration: 100 * time.Millisecond,
		Factor:   1.5,
		Jitter:   0.3,
		Steps:    6,
		Cap:      time.Second,
	}
}

// A forbidden watch waits for forbiddenFirst, then twice as long each time up
// to forbiddenLast. A starting API server forbids everything for a moment;
// otherwise an administrator must grant the permission.
const (
	forbiddenFirst = 500 * time.Millisecond
	forbiddenLast  = 20 * time.Second
)

// query selects one object by its name, or those that match a selector.
type query struct {
	client              rest.Interface
	resource, namespace string
	fields, labels      string
}

func (q query) String() string { return q.resource + " " + q.namespace + " " + q.fields + q.labels }

func byName(client rest.Interface, resource, namespace, name string) query {
	return query{
		client:    client,
		resource:  resource,
		namespace: namespace,
		fields:    fields.OneTermEqualSelector("metadata.name", name).String(),
	}
}

// watch calls seen with the objects that q finds, once they are known and
// whenever they change. It calls tried with the result of each request and
// begun after each start of a watch. It returns when ctx ends.
func watch[T runtime.Object](
	ctx context.Context, q query, kind T, begun func(), tried func(error), seen func(objects []T),
) {
	wait := forbiddenFirst
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o meta.ListOptions) (runtime.Object, error) {
			list, err := q.with(q.client.Get(), &o).Do(ctx).Get()
			tried(err)
			if !apierrors.IsForbidden(err) {
				wait = forbiddenFirst
				return list, err
			}

			pause(ctx, wait)
			wait = min(2*wait, forbiddenLast)
			return list, err
		},
		WatchFuncWithContext: func(
			ctx context.Context, o meta.ListOptions,
		) (watching.Interface, error) {
			o.Watch = true
			w, err := q.with(q.client.Get(), &o).Timeout(timeout(o)).Watch(ctx)
			if err == nil {
				begun()
			}

			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				tried(nil) // The server answers; the next list reads everything again.
			} else {
				tried(err)
			}

			return w, err
		},
	}

	r := cache.NewReflectorWithOptions(lister, kind, &store[T]{seen: seen},
		cache.ReflectorOptions{Name: q.resource, Backoff: watchBackoff()})
	r.RunWithContext(klog.NewContext(ctx, logr.Discard())) // tried receives the errors.
}

func (q query) with(r *rest.Request, o *meta.ListOptions) *rest.Request {
	o.FieldSelector = q.fields
	o.LabelSelector = q.labels
	return r.Namespace(q.namespace).Resource(q.resource).VersionedParams(o, meta.ParameterCodec)
}

// timeout returns how long the API server keeps a watch.
func timeout(o meta.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*o.TimeoutSeconds) * time.Second
}

// store implements cache.ReflectorStore with the objects that a query finds.
type store[T runtime.Object] struct {
	objects map[cache.ObjectName]T
	seen    func(objects []T)
}

// Add implements cache.ReflectorStore, as do the following methods.
func (s *store[T]) Add(object any) error {
	name, err := cache.ObjectToName(object)
	if err != nil {
		return err
	}
	if s.objects == nil {
		s.objects = map[cache.ObjectName]T{}
	}
	s.objects[name] = object.(T)
	return s.notify()
}

func (s *store[T]) Update(object any) error { return s.Add(object) }

func (s *store[T]) Delete(object any) error {
	name, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		return err
	}
	delete(s.objects, name)
	return s.notify()
}

func (s *store[T]) Replace(objects []any, _ string) error {
	s.objects = map[cache.ObjectName]T{}
	for _, object := range objects {
		name, err := cache.ObjectToName(object)
		if err != nil {
			return err
		}
		s.objects[name] = object.(T)
	}
	return s.notify()
}

func (*store[T]) Resync() error { return nil }

// notify calls seen with the objects in the order of their names.
func (s *store[T]) notify() error {
	names := slices.SortedFunc(maps.Keys(s.objects), func(a, b cache.ObjectName) int {
		return strings.Compare(a.String(), b.String())
	})
	objects := make([]T, len(names))
	for i, name := range names {
		objects[i] = s.objects[name]
	}
	s.seen(objects)
	return nil
}
