package rollout

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"
)

// walk visits the states of a scenario.
type walk struct {
	scenario
	seed   maphash.Seed
	number map[uint64]int32

	// parent and label say how each state was reached first.
	parent []int32
	label  []unique.Handle[string]

	// over are the states in which all have ended. before and after are the
	// transitions without faults.
	over          []int32
	before, after []int32
}

// visit is a state that is still to be followed.
type visit struct {
	number int32
	world  world
}

// batch is how many states are followed side by side, at most.
const batch = 512

// run visits all states, up to limit, and returns what is wrong, "" for nothing.
func (s scenario) run(limit int) (*walk, string) {
	w := &walk{
		scenario: s,
		seed:     maphash.MakeSeed(),
		number:   map[uint64]int32{},
	}

	first, _ := w.add(w.key(s.begin()), -1, unique.Make("begins"))
	todo := []visit{{first, s.begin()}}
	for len(todo) > 0 {
		rest := max(0, len(todo)-batch)
		all := w.followAll(todo[rest:])
		at := slices.Clone(todo[rest:])
		todo = todo[:rest]

		for i, f := range all {
			if f.problem != "" {
				return w, w.trace(at[i].number, f.problem)
			}
			if f.over {
				w.over = append(w.over, at[i].number)
			}
			for _, a := range f.arrivals {
				n, isNew := w.add(a.key, at[i].number, a.label)
				if !a.fault {
					w.before = append(w.before, at[i].number)
					w.after = append(w.after, n)
				}
				if isNew {
					todo = append(todo, visit{n, a.world})
				}
			}
		}
		if len(w.parent) > limit {
			return w, fmt.Sprintf("more than %d states", limit)
		}
	}
	return w, w.stuck()
}

// followed is what is found at one state: that all have ended, where its transitions
// arrive, or what is wrong with it or with one of them.
type followed struct {
	over     bool
	arrivals []arrival
	problem  string
}

// arrival is where a transition ends.
type arrival struct {
	world world
	key   uint64
	label unique.Handle[string]
	fault bool
}

// followAll follows states, on all processors.
func (w *walk) followAll(states []visit) []followed {
	all := make([]followed, len(states))
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(states)) {
		work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(states)); i = next.Add(1) - 1 {
				all[i] = w.follow(states[i].world)
			}
		})
	}
	work.Wait()
	return all
}

// follow follows one state. It reads what the walk began with, only.
func (w *walk) follow(from world) followed {
	if problem := w.problem(from); problem != "" {
		return followed{problem: problem}
	}

	f := followed{over: w.isOver(from)}
	for _, e := range w.edges(from) {
		e, wrong := w.settle(from, e)
		if wrong != "" {
			return followed{problem: e.label + "\n" + wrong}
		}
		f.arrivals = append(f.arrivals, arrival{e.to, w.key(e.to), unique.Make(e.label), e.fault})
	}
	return f
}

// settle returns a transition with the private steps that follow it, and what is wrong
// with one of them, "" for nothing.
func (s scenario) settle(from world, e edge) (edge, string) {
	for {
		if wrong := s.wrong(from, e.to); wrong != "" {
			return e, wrong
		}
		next, ok := s.private(e.to)
		if !ok {
			return e, ""
		}
		if problem := s.problem(e.to); problem != "" {
			return e, problem
		}
		from = e.to
		e = edge{e.label + "\n" + next.label, next.to, e.fault}
	}
}

// key tells a state from all others.
func (w *walk) key(of world) uint64 { return of.hash(w.seed, w.size) }

// add returns the number of a state, and whether it is new.
func (w *walk) add(key uint64, parent int32, label unique.Handle[string]) (int32, bool) {
	if n, ok := w.number[key]; ok {
		return n, false
	}

	n := int32(len(w.parent))
	w.number[key] = n
	w.parent = append(w.parent, parent)
	w.label = append(w.label, label)
	return n, true
}

// stuck returns how a state is reached from which not all machines can end, ""
// if there is none.
func (w *walk) stuck() string {
	// The sources of the transitions to n are from first[n] to first[n+1].
	first := make([]int32, len(w.parent)+1)
	for _, to := range w.after {
		first[to+1]++
	}
	for n := range w.parent {
		first[n+1] += first[n]
	}
	sources := make([]int32, len(w.before))
	free := slices.Clone(first)
	for i, to := range w.after {
		sources[free[to]] = w.before[i]
		free[to]++
	}

	ends := make([]bool, len(w.parent))
	todo := slices.Clone(w.over)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !ends[n] {
			ends[n] = true
			todo = append(todo, sources[first[n]:first[n+1]]...)
		}
	}

	if n := slices.Index(ends, false); n >= 0 {
		return w.trace(int32(n), "not all machines can end")
	}
	return ""
}

// trace returns the way to a state, and what is wrong there.
func (w *walk) trace(n int32, problem string) string {
	var lines []string
	for ; n >= 0; n = w.parent[n] {
		lines = append(lines, w.label[n].Value())
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n") + "\n" + problem
}
