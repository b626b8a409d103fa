package osc

import (
	"strings"
	"time"

	"github.com/loam-os/loam/agent/config"
)

// desired returns nil if no update is requested. status.inPlaceUpdates names
// the command that updates other operating systems; Loam updates itself.
func (u *InPlaceUpdate) desired() *config.Update {
	if u == nil {
		return nil
	}
	out := &config.Update{
		OSVersion: u.OperatingSystemVersion,
		Kubelet:   strings.TrimPrefix(u.Kubelet, "v"),
	}
	if rotation := u.CredentialsRotation; rotation != nil {
		out.CertificateAuthorities = rotation.CertificateAuthorities.began()
		out.ServiceAccountKey = rotation.ServiceAccountKey.began()
	}
	return out
}

// began returns the time in UTC, or zero if it is unknown.
func (r *Rotation) began() time.Time {
	if r == nil || r.LastInitiationTime == nil {
		return time.Time{}
	}
	return r.LastInitiationTime.UTC()
}
