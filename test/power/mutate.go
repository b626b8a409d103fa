package power

import (
	"path"
	"slices"

	"github.com/loam-os/loam/agent/durable"
)

// The following seed a bug into a recording, by which a test of power cuts is tested. They
// keep the number of its ops, so that what a cut before an op may leave stays the same.

// Without returns a function that forgets the ops of one kind whose names match the
// pattern of [path.Match].
func Without(op durable.Op, pattern string) func([]Op) {
	return func(ops []Op) {
		for i := range ops {
			match, err := path.Match(pattern, ops[i].Name)
			if err == nil && match && ops[i].Op == op {
				ops[i].Op = Mark
			}
		}
	}
}

// FirstWrite returns where the ops begin and end that first write name durably.
func FirstWrite(ops []Op, name string) (start, end int) {
	end = slices.IndexFunc(ops, func(op Op) bool {
		return op.Op == durable.Rename && op.Name == name
	})
	start = slices.IndexFunc(ops, func(op Op) bool { return op.Name == ops[end].From })
	return start, end + 2
}

// Later moves the ops from start to end to where to is.
func Later(ops []Op, start, end, to int) {
	copy(ops[start:to], slices.Concat(ops[end:to], ops[start:end]))
}
