package loop

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint/fault"
)

// Status returns how the node stands, but for what others observe: the cluster,
// the network and upgrades, and the uptime.
func (s State) Status() status.Status {
	st := s.Facts
	st.Units = s.Current.shown()
	st.Change = s.Change.Shown
	st.Changing = s.Change.Applying || s.Change.Resuming || s.Due.Resume
	st.Unfinished = s.Faults.Unfinished != nil
	st.Awaited = cmp.Or(s.Change.Job, s.Change.Unit)
	st.Warnings = slices.Concat(s.Facts.Warnings, s.Starts.warnings())

	st.Error = s.faults().First()
	st.Phase = s.phase(st.Error)
	st.Refused = s.Faults.Desired != nil
	st.Refusal = s.Faults.refusal()

	st.RevertedFrom = s.Faults.RevertedFrom

	current := s.Current.Generation
	st.Generation = current.Name()
	st.Digest = current.Digest
	if st.Generation != "" {
		st.Source = current.Source
	}
	if st.IsApplied() && s.Desired.AppliedDigest == current.Digest {
		st.Version = s.Desired.Version
	}

	for _, e := range current.Entries {
		if e.Kind == generation.KindFile {
			st.Files++
		}
		if e.Path == apiServer {
			st.ControlPlane = true
		}
		if isManifest(e.Path) {
			st.StaticPods = append(st.StaticPods, e.Path)
		}
	}
	return st
}

// faults are all faults, with those that follow from what was observed.
func (s State) faults() Faults {
	all := s.Faults
	all.Volume = s.Facts.Volume.Fault()
	all.EtcdVolume = s.Facts.EtcdVolume.Fault()
	all.Unit = s.Current.failure()
	return all
}

// phase says how far the node is. A generation that was applied stays so while
// its units come and go, as the units of a timer do, until one fails.
func (s State) phase(fault *status.Error) status.Phase {
	switch {
	case s.Change.Applying:
		return status.Applying
	case fault != nil:
		return status.Failed
	case s.Current.Generation.Name() == "":
		return status.Waiting
	case s.Facts.AppliedAt > 0:
		return status.Applied
	}
	return status.Applying
}

// want returns what the generation wants of a unit, zero if it does not list
// it.
func (c Current) want(name string) generation.Unit {
	i := slices.IndexFunc(
		c.Generation.Units,
		func(u generation.Unit) bool { return u.Name == name },
	)
	if i < 0 {
		return generation.Unit{}
	}
	return c.Generation.Units[i]
}

// state returns the observed state of a unit; false if it was not observed.
func (c Current) state(name string) (unit.State, bool) {
	i := slices.IndexFunc(c.Units, func(s unit.State) bool { return s.Name == name })
	if i < 0 {
		return unit.State{}, false
	}
	return c.Units[i], true
}

// shown returns the observed states beside what the generation wants; nil
// before the first observation.
func (c Current) shown() []status.Unit {
	if !c.Observed && c.Units == nil {
		return nil
	}

	wants := map[string]generation.Unit{}
	for _, u := range c.Generation.Units {
		wants[u.Name] = u
	}
	units := make([]status.Unit, 0, len(c.Units))
	for _, s := range c.Units {
		settled, _ := health.Well(wants[s.Name], s)
		units = append(units, status.Unit{
			Name:         s.Name,
			Active:       s.Active,
			Sub:          s.Sub,
			Settled:      settled,
			InvocationID: s.InvocationID,
			Since:        status.Duration(s.Since),
		})
	}
	return units
}

// failure returns the first unit that has failed and should not have, as an
// error.
func (c Current) failure() *status.Error {
	for _, s := range c.Units {
		if s.Active != "failed" {
			continue
		}
		if well, _ := health.Well(c.want(s.Name), s); !well {
			problem := fmt.Sprintf("unit %s failed: %s, exit code %d", s.Name, s.Result, s.ExitCode)
			return &status.Error{
				Unit:    s.Name,
				Problem: problem,
				Hint:    "`loam logs " + s.Name + "`",
				Code:    fault.UnitFailed,
			}
		}
	}
	return nil
}

// isSettled reports whether all observed units are as the generation wants
// them.
func (c Current) isSettled() bool {
	return !slices.ContainsFunc(c.shown(), func(u status.Unit) bool { return !u.Settled })
}

// evaluate returns the state with the time at which the generation first
// counted as applied, and without faults that are over. again is when to
// evaluate once more, even if nothing happens; 0 for never. limit is how long a
// boot without a change waits for units that are starting.
func (s State) evaluate(now, limit time.Duration) (evaluated State, again time.Duration) {
	if s.Change.Pending == nil {
		s.Change.Shown = nil
		s.Change.Unit = nil
	}

	// From here on, the states of the units show what is wrong.
	if len(s.Starts.Owed) == 0 && (s.Change.Pending == nil || s.Current.isSettled()) {
		s.Faults.Jobs = nil
	}

	if s.Facts.AppliedAt == 0 {
		var applied bool
		applied, again = s.isApplied(now, limit)
		if applied {
			s.Facts.AppliedAt = status.Duration(now)
		}
	}
	return s, again
}

// isApplied reports whether the current generation counts as applied. As for
// Gardener's node agent, every job of the change must have succeeded. A unit
// that pods do not need and that was never well here need not be well. A unit
// that is starting has time until the verdict, or in a boot without a change as
// long as a change would have; again is the rest of that time.
func (s State) isApplied(now, limit time.Duration) (applied bool, again time.Duration) {
	switch {
	case s.Change.Applying,
		s.Current.Generation.Name() == "",
		s.Faults.Desired != nil,
		s.Faults.Unfinished != nil,
		len(s.Starts.Owed) > 0:
		return false, 0
	}

	bootEnds := limit - now
	for _, want := range s.Current.Generation.Units {
		observed, ok := s.Current.state(want.Name)
		if !ok {
			continue
		}

		well, _ := health.Well(want, observed)
		switch {
		case well:
		case health.Counts(want, s.Starts.Well, nil):
			return false, 0
		case !health.OnItsWay(observed):
		case s.Change.Pending != nil:
			return false, 0
		case s.Change.Began == 0 && bootEnds > 0:
			return false, bootEnds
		}
	}
	return true, 0
}

const (
	// manifests has the static pods (KubeletConfiguration, staticPodPath).
	manifests = "/etc/kubernetes/manifests"
	// apiServer is the manifest that makes a node a part of the control plane.
	apiServer = manifests + "/kube-apiserver.yaml"
)

// isManifest reports whether the kubelet takes the file of that path for a
// static pod: it ignores directories, and names that begin with a dot.
func isManifest(name string) bool {
	return path.Dir(name) == manifests && !strings.HasPrefix(path.Base(name), ".")
}

// told are the causes of problems that an operator has been told, each until its
// problem is over.
type told struct {
	// Fault is what is wrong with the node, Away why its cluster is not reached, and
	// Cluster what is wrong between both while it is.
	Fault, Away, Cluster status.Causes
}

// isNews reports whether an operator has not been told of a problem of s, or that
// one is over, and counts s as told.
func (t *told) isNews(s status.Status) bool {
	text := ""
	if s.Error != nil {
		text = s.Error.String()
	}
	var faultNews, awayNews, clusterNews bool
	t.Fault, faultNews = t.Fault.With(text)
	t.Away, awayNews = t.Away.With(awayOf(s.Cluster))
	if c := s.Cluster; c == nil || c.Connected {
		t.Cluster, clusterNews = t.Cluster.With(problemOf(c))
	}
	return faultNews || awayNews || clusterNews
}

// isNews reports whether an operator cares about the change from before to s, but
// for the problems that [told] is about.
func isNews(s, before status.Status) bool {
	return s.Phase != before.Phase ||
		s.IsApplied() != before.IsApplied() ||
		s.Generation != before.Generation ||
		stageOf(s.Upgrade) != stageOf(before.Upgrade) ||
		isReady(s.OwnCluster) != isReady(before.OwnCluster) ||
		(s.Awaited != nil && !s.Awaited.Same(before.Awaited)) ||
		!s.Network.Alike(before.Network) ||
		len(s.DebugShells) != len(before.DebugShells) ||
		!slices.EqualFunc(s.Storage, before.Storage, isSameLevel) ||
		!slices.Equal(s.Limits, before.Limits) ||
		!slices.EqualFunc(troubled(s.Disks), troubled(before.Disks), isSameDisk) ||
		(s.Clock == nil) != (before.Clock == nil)
}

// isSameLevel reports whether a and b say the same of one file system, but for
// how much is free.
func isSameLevel(a, b status.FileSystem) bool { return a.Path == b.Path && a.Full == b.Full }

// troubled returns the disks that fail or are worn.
func troubled(disks []status.Disk) []status.Disk {
	return slices.DeleteFunc(slices.Clone(disks), func(d status.Disk) bool { return d.Code == "" })
}

// isSameDisk reports whether a and b say the same of one disk, but for numbers.
func isSameDisk(a, b status.Disk) bool { return a.Name == b.Name && a.Code == b.Code }

// isReady reports whether there is a cluster that is as its record says.
func isReady(c *status.OwnCluster) bool { return c != nil && c.Ready }

// stageOf returns how far an upgrade is, "" if none is under way.
func stageOf(u *status.Upgrade) string {
	if u == nil {
		return ""
	}
	return u.Phase
}

// awayOf returns why a cluster is not reached, "" if it is, or there is none, or
// nothing was tried yet. Its text is the same for the same cause (cluster/reach).
func awayOf(c *status.Cluster) string {
	if c == nil || c.Connected || (!c.Reached && c.Problem == "") {
		return ""
	}
	return "not reached: " + c.Problem
}

// problemOf returns what is wrong between a node and a cluster that it reaches, ""
// for nothing.
func problemOf(c *status.Cluster) string {
	if c == nil {
		return ""
	}
	return c.Problem
}

// changeOf returns a change on trial as the status shows it.
func changeOf(p apply.Pending, v health.Verdict) *status.Change {
	c := &status.Change{From: p.From, Good: p.Good, Waits: v.Reason}
	if p.Try != nil {
		c.Until = p.Try.Until
	}
	return c
}
