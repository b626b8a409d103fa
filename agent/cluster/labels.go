package cluster

import (
	"encoding/json"
	"maps"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// desiredMeta are the labels and annotations that the Node should have. A nil
// value removes the key.
type desiredMeta struct {
	labels, annotations map[string]*string
}

// desiredMetaOf returns what the Node should say, by the cluster's
// configuration; p is nil if that is unknown. The annotation of the applied
// configuration stays while the node is applying another.
func desiredMetaOf(c Config, n *core.Node, s status.Status, p *pendingConfig) desiredMeta {
	w := desiredMeta{labels: map[string]*string{}, annotations: map[string]*string{}}
	role := roleLabel + "worker"
	if s.ControlPlane {
		role = controlPlaneLabel
	}

	w.labels[role] = new(string)
	if c.Zone != "" {
		w.labels[zoneLabel] = &c.Zone
	}

	w.annotations[heldAnnotation] = nil
	if held := heldOf(s); held != "" {
		w.annotations[heldAnnotation] = &held
	}

	if _, isCanary := n.Labels[canaryLabel]; isCanary {
		tried := triedOf(turns.ParseTried(n.Annotations[canaryTriedAnnotation]), s, p).String()
		w.annotations[canaryTriedAnnotation] = &tried
	}

	switch {
	case p == nil:
	case s.Version == p.sum:
		w.annotations[appliedAnnotation] = &p.label
		if c.KubernetesVersion != "" {
			w.labels[versionLabel] = &c.KubernetesVersion
		}
	case s.Refused && s.Offered == p.sum && n.Annotations[appliedAnnotation] == p.label:
		w.annotations[appliedAnnotation] = nil // It was reverted.
	}

	return w
}

// heldOf returns why the node keeps its system, "" if it does not.
func heldOf(s status.Status) string {
	if s.Upgrade == nil {
		return ""
	}
	return s.Upgrade.Held
}

// triedOf returns what a canary has tried, with what it runs: that may need no
// turn, or be older than its label.
func triedOf(tried turns.Tried, s status.Status, p *pendingConfig) turns.Tried {
	tried.Version = s.ImageVersion
	if s.RootHash != "" {
		tried = tried.With(turns.SystemTarget(s.RootHash))
	}
	if p != nil && s.Version == p.sum {
		tried = tried.With(p.target)
	}
	return tried
}

// patch returns a merge patch (RFC 7386) that makes n as desired, nil if it is
// already.
func (w desiredMeta) patch(n *core.Node) []byte {
	changes := map[string]any{}
	if labels := changed(w.labels, n.Labels); len(labels) > 0 {
		changes["labels"] = labels
	}
	if annotations := changed(w.annotations, n.Annotations); len(annotations) > 0 {
		changes["annotations"] = annotations
	}

	if len(changes) == 0 {
		return nil
	}

	text, _ := json.Marshal(map[string]any{"metadata": changes}) // Strings only.
	return text
}

func changed(want map[string]*string, have map[string]string) map[string]*string {
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(key string, value *string) bool {
		is, ok := have[key]
		return (value == nil && !ok) || (value != nil && ok && is == *value)
	})
	return want
}
