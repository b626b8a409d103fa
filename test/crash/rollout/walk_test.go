package rollout

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
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

// run visits all states, up to limit, and returns what is wrong, "" for nothing.
func (s scenario) run(limit int) (*walk, string) {
	w := &walk{
		scenario: s,
		seed:     maphash.MakeSeed(),
		number:   map[uint64]int32{},
	}

	first, _ := w.add(s.begin(), -1, "begins")
	todo := []visit{{first, s.begin()}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.isOver(at.world) {
			w.over = append(w.over, at.number)
		}

		for _, e := range s.edges(at.world) {
			e, wrong := s.settle(at.world, e)
			if wrong != "" {
				return w, w.trace(at.number, e.label+"\n"+wrong)
			}

			n, isNew := w.add(e.to, at.number, e.label)
			if !e.fault {
				w.before = append(w.before, at.number)
				w.after = append(w.after, n)
			}
			if !isNew {
				continue
			}
			if problem := s.problem(e.to); problem != "" {
				return w, w.trace(n, problem)
			}
			todo = append(todo, visit{n, e.to})
		}
		if len(w.parent) > limit {
			return w, fmt.Sprintf("more than %d states", limit)
		}
	}
	return w, w.stuck()
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

// add returns the number of a state, and whether it is new.
func (w *walk) add(to world, parent int32, label string) (int32, bool) {
	key := to.hash(w.seed, w.size)
	if n, ok := w.number[key]; ok {
		return n, false
	}

	n := int32(len(w.parent))
	w.number[key] = n
	w.parent = append(w.parent, parent)
	w.label = append(w.label, unique.Make(label))
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
