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

// pendingConfig is the configuration that the cluster has for the node.
type pendingConfig struct {
	secret string
	uid    types.UID
	text   []byte

	// sum is the SHA-256 of text. label is the checksum in the Secret's
	// annotation, or sum if that is unset.
	sum, label string
	serial     bool

	// since is when the text was first seen.
	since time.Time
}

// pendingConfigOf reads a Secret.
func pendingConfigOf(s *core.Secret, now time.Time) pendingConfig {
	text := s.Data[dataKey]
	sum := sha256.Sum256(text)
	o := pendingConfig{
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

// delay returns the delay in the Node's annotation, or the previous one if it
// cannot be read.
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

// leaseState says who has the rollout Lease.
type leaseState string

const (
	leaseOurs  leaseState = "mine"  // This node has it.
	leaseFree  leaseState = "take"  // No node has it: this node may take it.
	leaseTaken leaseState = "await" // Another node has it.
)

// rolloutTerm is how long the rollout Lease lasts without renewal, rolloutRenew
// how often its holder renews it.
const (
	rolloutTerm  = 600 * time.Second
	rolloutRenew = 5 * time.Second
)

// renewRolloutAt returns when to renew the Lease. A renewal in the future,
// after the clock was set back, is due now.
func renewRolloutAt(l *coordination.Lease, now time.Time) time.Time {
	if l.Spec.RenewTime == nil || l.Spec.RenewTime.After(now) {
		return now
	}
	return l.Spec.RenewTime.Add(rolloutRenew)
}

// observedLease is when this node first saw the rollout Lease in its present
// form. The Lease expires by this node's clock, because the times in it are by
// the clock of the holder.
type observedLease struct {
	name string
	spec coordination.LeaseSpec
	// at is an uptime.
	at time.Duration
}

// next returns the observation of l at uptime: s if l has not changed.
func (s observedLease) next(l *coordination.Lease, uptime time.Duration) observedLease {
	if s.name == l.Name && reflect.DeepEqual(s.spec, l.Spec) {
		return s
	}
	return observedLease{name: l.Name, spec: l.Spec, at: uptime}
}

// leaseStateOf returns who has the Lease, which is nil if absent and which this
// node has seen unchanged for unchanged. rest is how long another holder may
// still keep it.
func leaseStateOf(
	l *coordination.Lease, holder string, unchanged time.Duration,
) (t leaseState, rest time.Duration) {
	if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return leaseFree, 0
	}
	if *l.Spec.HolderIdentity == holder {
		return leaseOurs, 0
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return leaseFree, 0
	}

	rest = time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second - unchanged
	if rest <= 0 {
		return leaseFree, 0
	}

	return leaseTaken, rest
}
