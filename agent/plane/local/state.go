package local

import (
	"sync/atomic"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/status"
)

// clusterState is how the cluster of a node is, as the status shows it.
type clusterState struct {
	current atomic.Pointer[status.OwnCluster]

	// changed receives a value when current is another.
	changed chan struct{}
}

// newState returns the state of the cluster of a record, which has that problem.
func newState(r plane.Record, problem string) *clusterState {
	s := &clusterState{changed: make(chan struct{}, 1)}
	s.current.Store(&status.OwnCluster{
		Name:       r.Name,
		Kubernetes: r.Kubernetes,
		Problem:    problem,
	})
	return s
}

// report changes the state. Only one goroutine calls it: the one of [Follower.Run], and
// before that the one that makes the cluster.
func (s *clusterState) report(change func(*status.OwnCluster)) {
	next := *s.current.Load()
	change(&next)
	if next == *s.current.Load() {
		return
	}

	s.current.Store(&next)
	notify(s.changed)
}

// logged is the problem that was logged last, "" if none.
type logged string

// isNews reports whether a problem, "" if none, is worth a line of the log, and takes
// it for logged.
func (l *logged) isNews(problem string) bool {
	news := problem != "" && problem != string(*l)
	*l = logged(problem)
	return news
}
