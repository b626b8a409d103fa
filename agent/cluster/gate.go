package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
	// sum is the SHA-256 of the text, label what the Secret's annotation says of it:
	// the same, unless somebody forgot that.
	sum, label string
	serial     bool
	// since is when it was first seen.
	since time.Time
}

// offerOf reads a Secret.
func offerOf(s *core.Secret, now time.Time) offer {
	text := s.Data[dataKey]
	sum := sha256.Sum256(text)
	o := offer{secret: s.Name, uid: s.UID, text: text, sum: hex.EncodeToString(sum[:]), serial: s.Annotations[serialAnnotation] == "true", since: now}
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
	await turn = "await" // Another node has it until Until.
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

// turnOf decides by the Lease, nil if there is none. until is when to look again.
func turnOf(l *coordination.Lease, holder string, now time.Time) (t turn, until time.Time) {
	if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return take, time.Time{}
	}
	if *l.Spec.HolderIdentity == holder {
		return mine, time.Time{}
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return take, time.Time{}
	}
	end := l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
	if !now.Before(end) {
		return take, time.Time{}
	}
	return await, end
}
