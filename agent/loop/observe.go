package loop

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// look observes the units of the current generation and publishes how the node
// stands.
func (l *loop) look(ctx context.Context) {
	var names []string
	for _, u := range l.current.Units {
		if !generation.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}
	states, err := l.Units.Show(ctx, names)
	if ctx.Err() != nil {
		return
	}
	l.looked = true
	if err != nil {
		l.warn("observe units", err)
	} else {
		l.takeStates(states)
		l.judge(ctx)
	}
	l.show(ctx)
}

// show publishes how the node stands as far as is known; it looks only if
// nothing is.
func (l *loop) show(ctx context.Context) {
	if !l.looked {
		l.look(ctx)
		return
	}
	if !l.isPending {
		l.status.Change = nil
	}
	l.status.Units = compare(l.current, l.states)
	if len(l.starts.owed) == 0 && (settled(l.status.Units) || !l.isPending) {
		l.failed = nil // What is wrong with units now, their states say.
	}
	if l.status.AppliedAt == 0 && l.isApplied() {
		l.status.AppliedAt = l.Now()
		l.Log.Info("the configuration is applied", zap.String("generation", l.current.Name()))
	}
	l.status.Error = firstOf(l.asked, l.unfinished, l.status.Volume.Fault(), l.failed, l.failure(), l.drifted)
	phase := decidePhase(l.status, l.current.Name() != "")
	if l.changing {
		phase = status.Applying
	}
	l.publish(phase)
}

// decidePhase says how far the node is. A generation that was applied stays so
// while its units come and go, as those of a timer do, until one fails.
func decidePhase(s status.Status, hasGeneration bool) status.Phase {
	switch {
	case s.Error != nil:
		return status.Failed
	case !hasGeneration:
		return status.Waiting
	case s.AppliedAt > 0:
		return status.Applied
	}
	return status.Applying
}

// compare puts the observed states next to what the generation wants. States
// are in the order of the units, templates left out.
func compare(m generation.Manifest, states []unit.State) []status.Unit {
	wanted := map[string]generation.Unit{}
	for _, u := range m.Units {
		wanted[u.Name] = u
	}
	units := make([]status.Unit, 0, len(states))
	for _, s := range states {
		settled, _ := health.Well(wanted[s.Name], s)
		units = append(units, status.Unit{
			Name: s.Name, Active: s.Active, Sub: s.Sub, Settled: settled, InvocationID: s.InvocationID, Since: s.Since,
		})
	}
	return units
}

func settled(units []status.Unit) bool {
	for _, u := range units {
		if !u.Settled {
			return false
		}
	}
	return true
}

// failure is the first unit that has failed and should not have, as an error.
func (l *loop) failure() *status.Error {
	for i, u := range l.status.Units {
		if s := l.states[i]; s.Active == "failed" && !u.Settled {
			return &status.Error{
				Unit:    s.Name,
				Problem: fmt.Sprintf("unit %s failed: %s, exit code %d", s.Name, s.Result, s.ExitCode),
				Hint:    "journalctl -u " + s.Name,
			}
		}
	}
	return nil
}

func firstOf(errs ...*status.Error) *status.Error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// manifests has the static pods (KubeletConfiguration, staticPodPath), apiServer is
// the one that makes a node one of the control plane.
const (
	manifests = "/etc/kubernetes/manifests"
	apiServer = manifests + "/kube-apiserver.yaml"
)

// isManifest reports whether the kubelet takes the file of that path for a static
// pod: it leaves directories alone, and names that begin with a dot.
func isManifest(name string) bool {
	return path.Dir(name) == manifests && !strings.HasPrefix(path.Base(name), ".")
}

// publish shows the status if it is another than the one shown last.
func (l *loop) publish(phase status.Phase) {
	s := l.statusIn(phase)
	if l.Cluster != nil && l.Jobs != nil {
		l.Jobs.Tell(l.Cluster.Event)
	}
	if l.published && reflect.DeepEqual(s, l.shown) {
		return
	}
	news := !l.published || isNews(s, l.shown)
	l.shown, l.published = s, true
	s.Uptime = l.Now()
	if l.Cluster != nil {
		l.Cluster.Report(s)
	}
	l.Publish(s, news)
}

// statusIn is the status of the node in a phase, but for its uptime.
func (l *loop) statusIn(phase status.Phase) status.Status {
	s := l.status
	s.Phase, s.Refused, s.Refusal = phase, l.asked != nil, l.refusal
	if l.asked == nil && l.unfinished != nil {
		s.Refusal = status.NotApplied
	}
	s.Warnings = l.warnings()
	s.Generation, s.Digest = l.current.Name(), l.current.Digest
	if s.Generation != "" {
		s.Source = l.current.Source
	}
	if s.IsApplied() && l.given == l.current.Digest {
		s.Version = l.version
	}
	for _, e := range l.current.Entries {
		if e.Kind == generation.KindFile {
			s.Files++
		}
		s.ControlPlane = s.ControlPlane || e.Path == apiServer
		if isManifest(e.Path) {
			s.StaticPods = append(s.StaticPods, e.Path)
		}
	}
	if l.Cluster != nil {
		link := l.Cluster.Link()
		s.Cluster = &link
	}
	if l.Network != nil {
		s.Network = l.Network.State()
	}
	if l.Upgrades != nil {
		s.Upgrade = l.Upgrades.State()
	}
	return s
}

// isNews reports whether a person at a console is to see s after before.
func isNews(s, before status.Status) bool {
	return s.Phase != before.Phase || s.IsApplied() != before.IsApplied() ||
		!reflect.DeepEqual(s.Error, before.Error) || s.Generation != before.Generation ||
		!s.Network.Alike(before.Network) || len(s.DebugShells) != len(before.DebugShells)
}
