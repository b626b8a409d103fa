package status

import "slices"

// maxCauses bounds Causes: a text may differ at each try.
const maxCauses = 16

// Causes are the causes of one problem that an operator has been told, until the
// problem is over. A node that tries two addresses in turn has two causes in turn.
type Causes []string

// With returns the causes with one more, and whether that is news. cause is "" when
// the problem is over, which is news if there was one. With more than maxCauses, the
// oldest is forgotten.
func (c Causes) With(cause string) (Causes, bool) {
	switch {
	case cause == "":
		return nil, len(c) > 0
	case slices.Contains(c, cause):
		return c, false
	}
	all := append(slices.Clone(c), cause)
	return all[max(0, len(all)-maxCauses):], true
}
