package apiserver

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// historyLength is how many changes of a kind a watch may begin in the past.
const historyLength = 4096

// version is an object as one write left it. It does not change.
type version struct {
	object Object

	// number is the resource version.
	number uint64

	mu      sync.Mutex
	encoded map[string][]byte
}

// change is a write. before is nil for a new object; deleted says that after is
// the last version.
type change struct {
	before, after *version
	deleted       bool
}

// collection has all objects of a kind. The lock of its server guards it.
type collection struct {
	kind *kind

	// objects are by key, keys sorted.
	objects map[string]*version
	keys    []string

	// history are the last changes, and oldest the resource version before the
	// first of them.
	history []change
	oldest  uint64

	// watchers watch any object, named those of a key.
	watchers map[*watcher]bool
	named    map[string]map[*watcher]bool
}

func newCollection(k *kind, number uint64) *collection {
	return &collection{
		kind:     k,
		objects:  map[string]*version{},
		oldest:   number,
		watchers: map[*watcher]bool{},
		named:    map[string]map[*watcher]bool{},
	}
}

// keyOf orders objects as a list does.
func keyOf(namespace, name string) string { return namespace + "/" + name }

// put records a change, and sends it to the watches.
func (c *collection) put(ch change) {
	key := keyOf(ch.after.object.GetNamespace(), ch.after.object.GetName())
	at, found := slices.BinarySearch(c.keys, key)
	switch {
	case ch.deleted:
		delete(c.objects, key)
		c.keys = slices.Delete(c.keys, at, at+1)
	case !found:
		c.keys = slices.Insert(c.keys, at, key)
		fallthrough
	default:
		c.objects[key] = ch.after
	}

	if len(c.history) == historyLength {
		c.compact(historyLength / 4)
	}
	c.history = append(c.history, ch)

	for w := range c.watchers {
		w.send(ch)
	}
	for w := range c.named[key] {
		w.send(ch)
	}
}

// compact forgets the first n changes.
func (c *collection) compact(n int) {
	if n == 0 {
		return
	}
	c.oldest = c.history[n-1].after.number
	c.history = slices.Clone(c.history[n:])
}

// since returns the changes after a resource version, false if they are
// forgotten.
func (c *collection) since(number uint64) ([]change, bool) {
	if number < c.oldest {
		return nil, false
	}
	first, _ := slices.BinarySearchFunc(c.history, number+1, func(ch change, n uint64) int {
		return int(ch.after.number) - int(n)
	})
	return c.history[first:], true
}

// find returns the objects that a selection has, in order.
func (c *collection) find(s selection) []*version {
	if key, ok := s.key(c.kind); ok {
		v := c.objects[key]
		if v == nil || !s.matches(v.object) {
			return nil
		}
		return []*version{v}
	}

	prefix := ""
	if s.namespace != "" {
		prefix = s.namespace + "/"
	}
	first, _ := slices.BinarySearch(c.keys, prefix)
	var found []*version
	for _, key := range c.keys[first:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if v := c.objects[key]; s.matches(v.object) {
			found = append(found, v)
		}
	}
	return found
}

// eventOf returns what a change is for who watches a selection, "" for nothing.
func (s selection) eventOf(ch change) watch.EventType {
	had := ch.before != nil && s.matches(ch.before.object)
	has := !ch.deleted && s.matches(ch.after.object)
	switch {
	case has && had:
		return watch.Modified
	case has:
		return watch.Added
	case had:
		return watch.Deleted
	}
	return ""
}
