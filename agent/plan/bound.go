package plan

import (
	"path"
	"slices"
)

// freeSockets stops the service of each socket that will be started: systemd
// refuses to start a socket whose service is up. The service is started again
// afterwards if it should be up, unless its socket does that.
func freeSockets(actions []Action, after map[string]*listed, observed Observed) []Action {
	for _, socket := range slices.Clone(actions) {
		u := after[socket.Unit]
		if u == nil || u.Triggers == "" || (socket.Verb != Start && socket.Verb != Restart) ||
			!observed[u.Triggers].Running() {
			continue
		}

		why := []string{"its socket " + socket.Unit + " is to " + string(socket.Verb)}
		service := slices.IndexFunc(actions, func(a Action) bool { return a.Unit == u.Triggers })
		if service >= 0 {
			why = append(why, actions[service].Why...)
			if actions[service].Verb == Stop {
				continue
			}
			actions = slices.Delete(actions, service, service+1)
		}

		actions = append(actions, Action{Unit: u.Triggers, Verb: Stop, Why: why})
		if comesUpAgain(after[u.Triggers]) {
			actions = append(actions, Action{Unit: u.Triggers, Verb: Start, Why: why})
		}
	}

	return actions
}

// comesUpAgain reports whether a unit that stops because of another must be
// started again. want is nil for a unit of the image alone.
func comesUpAgain(want *listed) bool {
	return want != nil && !want.Stopped && !want.BySocket
}

// bonds knows which units are bound to which.
type bonds struct {
	after    map[string]*listed
	observed Observed
	changes  changes
}

// follow adds the actions that systemd takes by itself: a running unit stops
// and restarts with the units it is bound to.
func follow(actions []Action, b bonds) []Action {
	queue := slices.Clone(actions)
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		if a.Verb != Restart && a.Verb != Stop {
			continue
		}

		for _, name := range b.to(a.Unit) {
			did, ok := actionBy(a, name, b.after[name], actions)
			if !ok {
				continue
			}

			actions = slices.DeleteFunc(actions, func(other Action) bool {
				return other.Unit == name && other.Verb != Stop
			})

			actions = append(actions, did)
			if did.Verb == Start {
				did.Verb = Stop // From the bound unit's point of view.
			}

			queue = append(queue, did)
		}
	}

	return actions
}

// to returns the running units that are bound to unit name: according to the
// next generation or, unless that changes, to systemd, which includes slices
// and the image's units.
func (b bonds) to(name string) []string {
	var bound []string
	for other, u := range b.after {
		if slices.Contains(u.BoundTo, name) && b.observed[other].Running() {
			bound = append(bound, other)
		}
	}

	for _, other := range b.observed[name].BoundBy {
		if b.observed[other].Running() && !b.mayChange(other, name) {
			bound = append(bound, other)
		}
	}

	slices.Sort(bound)
	return slices.Compact(bound)
}

// mayChange reports whether a reload may change how other is bound to name.
func (b bonds) mayChange(other, name string) bool {
	link := path.Join(unitDir, other+".requires", name)
	return len(b.changes.unitFiles(other)) > 0 || b.changes.byPath[link] == Removed
}

// actionBy returns what a does to the running unit name, false if another
// action decides that. want is nil for a unit of the image alone.
func actionBy(a Action, name string, want *listed, actions []Action) (Action, bool) {
	did := Action{
		Unit: name,
		Verb: Restart,
		By:   a.Unit,
		Why:  []string{"it is bound to " + a.Unit},
	}

	if a.Verb == Stop {
		did.Verb = Stop
		if comesUpAgain(want) {
			// It stops with the other unit and must come up again.
			did.Verb = Start
			did.By = ""
		}
	}

	for _, other := range actions {
		if other.Unit != name || other.Verb == Keep || other.Verb == Reload {
			continue
		}
		if other.Verb != Restart || other.By != "" || a.Verb == Stop {
			return Action{}, false
		}
		did.Why = append(did.Why, other.Why...)
	}

	return did, true
}
