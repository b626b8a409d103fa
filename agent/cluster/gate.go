package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// offer is the configuration that the cluster has for the node.
type offer struct {
	secret string
	uid    types.UID
	text   []byte

	// sum is the SHA-256 of the text, label what the Secret's annotation says
	// of it: the same, unless somebody forgot that.
	sum, label string
	serial     bool

	// since is when it was first seen.
	since time.Time
}

// offerOf reads a Secret.
func offerOf(s *core.Secret, now time.Time) offer {
	text := s.Data[dataKey]
	sum := sha256.Sum256(text)
	o := offer{
		secret: s.Name,
		uid:    s.UID,
		text:   text,
		sum:    hex.EncodeToString(sum[:]),
		serial: s.Annotations[serialAnnotation] == "true",
		since:  now,
	}

	o.label = cmp.Or(s.Annotations[checksumAnnotation], o.sum)
	return o
}

// delay is how long the Node's annotation says that a change has to wait; the
// one before if it cannot be read.
func delay(n *core.Node, before time.Duration) time.Duration {
	if n == nil {
		return before
	}
	d, err := time.ParseDuration(n.Annotations[delayAnnotation])
	if err != nil || d < 0 {
		return before
	}
	return d
}

// turn says what to do about a Lease that nodes take turns by.
type turn string

const (
	mine  turn = "mine"  // It is this node's turn.
	take  turn = "take"  // Nobody has it: take it.
	await turn = "await" // Another node has it.
)

// serialTerm is how long a turn lasts that is not renewed, turnRenew how often
// the node that has it renews it.
const (
	serialTerm = 600 * time.Second
	turnRenew  = 5 * time.Second
)

// renewTurnAt is when a turn is to be renewed. One whose time is ahead, as the
// clock was set back, is to be renewed now.
func renewTurnAt(l *coordination.Lease, now time.Time) time.Time {
	if l.Spec.RenewTime == nil || l.Spec.RenewTime.After(now) {
		return now
	}
	return l.Spec.RenewTime.Add(turnRenew)
}

// sighting is when this node first saw the Lease of turns as it is. A turn
// expires by that: the times in the Lease are by the clock of the node that has
// the turn.
type sighting struct {
	lease string
	spec  coordination.LeaseSpec
	// at is an uptime.
	at time.Duration
}

// next returns the sighting of l at uptime: the one before, if l has not
// changed.
func (s sighting) next(l *coordination.Lease, uptime time.Duration) sighting {
	if s.lease == l.Name && reflect.DeepEqual(s.spec, l.Spec) {
		return s
	}
	return sighting{lease: l.Name, spec: l.Spec, at: uptime}
}

// turnOf decides by the Lease, nil if there is none, that this node has seen
// unchanged for unchanged. rest is how long another node has its turn yet.
func turnOf(
	l *coordination.Lease, holder string, unchanged time.Duration,
) (t turn, rest time.Duration) {
	if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return take, 0
	}
	if *l.Spec.HolderIdentity == holder {
		return mine, 0
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return take, 0
	}

	rest = time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second - unchanged
	if rest <= 0 {
		return take, 0
	}

	return await, rest
}
