package plan

import (
	"slices"

	"github.com/loam-os/loam/agent/generation"
)

// rank orders verbs by what they do to a unit that is up.
var rank = map[Verb]int{Keep: 0, Reload: 1, Start: 2, Restart: 3, Stop: 4}

// oneForAliases makes one action of those for the same unit under several
// names, the one that does most, under the name that comes first.
func oneForAliases(actions []Action, observed Observed) []Action {
	first := map[string]int{}
	var all []Action
	for _, a := range actions {
		id := a.Unit
		if s, ok := observed[a.Unit]; ok && s.ID != "" {
			id = s.ID
		}
		i, twice := first[id]
		if !twice {
			first[id] = len(all)
			all = append(all, a)
			continue
		}
		if rank[a.Verb] > rank[all[i].Verb] {
			all[i].Verb, all[i].Why = a.Verb, a.Why
		}
	}
	return all
}

// freeSockets stops the service of each socket that is to be started: systemd
// refuses to start a socket whose service is up. A service that is not merely on
// demand is started again afterwards.
func freeSockets(actions []Action, after map[string]*generation.Unit, observed Observed) []Action {
	for _, socket := range slices.Clone(actions) {
		u := after[socket.Unit]
		if u == nil || u.Triggers == "" || socket.Verb != Start && socket.Verb != Restart || !observed[u.Triggers].Running() {
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
		if wanted := after[u.Triggers]; wanted != nil && !wanted.OnDemand {
			actions = append(actions, Action{Unit: u.Triggers, Verb: Start, Why: why})
		}
	}
	return actions
}

// follow adds what systemd makes of the actions by itself: a unit that is up
// stops and restarts with those it is bound to.
func follow(actions []Action, after map[string]*generation.Unit, observed Observed) []Action {
	queue := slices.Clone(actions)
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		if a.Verb != Restart && a.Verb != Stop {
			continue
		}
		for _, name := range boundTo(a.Unit, after, observed) {
			did, ok := actionBy(a, name, after[name], actions)
			if !ok {
				continue
			}
			actions = slices.DeleteFunc(actions, func(other Action) bool { return other.Unit == name && other.Verb != Stop })
			actions, queue = append(actions, did), append(queue, did)
		}
	}
	return actions
}

// boundTo are the units that are up and bound to unit name, by what the next
// generation says of its own and systemd of the others.
func boundTo(name string, after map[string]*generation.Unit, observed Observed) []string {
	var bound []string
	for other, u := range after {
		if slices.Contains(u.BoundTo, name) && observed[other].Running() {
			bound = append(bound, other)
		}
	}
	for _, other := range observed[name].BoundBy {
		if after[other] == nil && observed[other].Running() {
			bound = append(bound, other)
		}
	}
	slices.Sort(bound)
	return slices.Compact(bound)
}

// actionBy is what becomes of unit name, which is up, through a; false if that
// is decided otherwise already. want is nil for a unit of the image alone.
func actionBy(a Action, name string, want *generation.Unit, actions []Action) (Action, bool) {
	did := Action{Unit: name, Verb: Restart, By: a.Unit, Why: []string{"it is bound to " + a.Unit}}
	if a.Verb == Stop {
		did.Verb = Stop
		if want != nil && !want.Stopped && !want.OnDemand {
			did.Verb, did.By = Start, "" // It stops with the other and has to come up again.
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
