package cluster

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
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

// watch calls seen with the objects that q finds, once they are known, whenever they
// change, and again after an error. It calls tried with the result of each request and
// begun after each start of a watch. It returns when ctx ends.
func watch[T runtime.Object](
	ctx context.Context, q query, kind T, begun func(), tried func(error), seen func(objects []T),
) {
	wait := forbiddenFirst
	request := func(o *meta.ListOptions) *rest.Request {
		// The retries of a client are minutes in which tried hears of no error.
		return q.with(q.client.Get(), o).MaxRetries(0)
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o meta.ListOptions) (runtime.Object, error) {
			list, err := request(&o).Do(ctx).Get()
			tried(err)
			if !apierrors.IsForbidden(err) {
				wait = forbiddenFirst
				waitFor(ctx, err)
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
			r := request(&o).Timeout(timeout(o))
			var a attempt
			w, err := r.Watch(context.WithValue(ctx, attemptKey{}, &a))
			if err == nil && a.err != nil {
				err = &url.Error{Op: "Get", URL: r.URL().String(), Err: a.err}
			}
			if err == nil {
				begun()
			}

			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				tried(nil) // The server answers; the next list reads everything again.
			} else {
				tried(err)
			}

			waitFor(ctx, err)
			if utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) {
				err = errors.New(err.Error()) // A reflector would watch on, and list nothing.
			}
			return w, err
		},
	}

	r := cache.NewReflectorWithOptions(lister, kind, &store[T]{seen: seen},
		cache.ReflectorOptions{Name: q.resource, Backoff: watchBackoff()})
	r.RunWithContext(klog.NewContext(ctx, logr.Discard())) // tried receives the errors.
}

// attempt is a request for a watch. A client hides an error of it that may pass, such as
// a timeout, and returns a watch that has ended.
type attempt struct{ err error }

// attemptKey is the key of an *attempt in the context of its request.
type attemptKey struct{}

// attempts is a transport that puts the errors of requests into their attempts.
type attempts struct{ http.RoundTripper }

func (t attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if a, ok := r.Context().Value(attemptKey{}).(*attempt); ok {
		a.err = err
	}
	return answer, err
}

// waitFor waits for as long as a busy API server asks for with err.
func waitFor(ctx context.Context, err error) {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause(ctx, time.Duration(seconds)*time.Second)
	}
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
