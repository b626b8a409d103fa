package cluster

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"
)

// hashAnnotation identifies the version of a static pod. Its mirror pod, which
// the kubelet creates, has the same.
const hashAnnotation = "gardener.cloud/config.mirror"

// staticLabel is "true" on the static pods of Gardener.
const staticLabel = "static-pod"

// staticPod is the part of a manifest that identifies the pod.
type staticPod struct {
	Kind     string          `json:"kind"`
	Metadata meta.ObjectMeta `json:"metadata"`
}

// staticPods reads manifests, which are absolute paths beneath root.
func staticPods(root fs.FS, manifests []string) ([]staticPod, error) {
	var pods []staticPod
	for _, name := range manifests {
		text, err := fs.ReadFile(root, strings.TrimPrefix(name, "/"))
		if err != nil {
			return nil, fmt.Errorf("read a static pod: %w", err)
		}

		var p staticPod
		if err := yaml.Unmarshal(text, &p); err != nil || p.Kind != "Pod" || p.Metadata.Name == "" {
			return nil, fmt.Errorf("%s: not a Pod", name)
		}

		if p.Metadata.Namespace == "" {
			p.Metadata.Namespace = meta.NamespaceDefault
		}

		pods = append(pods, p)
	}

	return pods, nil
}

// isMirror reports whether p is the mirror pod of s on that Node.
func (s staticPod) isMirror(p *core.Pod, node string) bool {
	return p.Namespace == s.Metadata.Namespace &&
		p.Name == s.Metadata.Name+"-"+strings.ToLower(node)
}

// notReady says which static pod does not run on the Node as its manifest says,
// or still runs although Gardener removed its manifest. It returns "" if all
// run as they should.
func notReady(want []staticPod, node string, have []*core.Pod) string {
	for _, w := range want {
		name := w.Metadata.Namespace + "/" + w.Metadata.Name
		i := slices.IndexFunc(have, func(p *core.Pod) bool { return w.isMirror(p, node) })
		switch {
		case i < 0:
			return "static pod " + name + " is missing"
		case have[i].Annotations[hashAnnotation] != w.Metadata.Annotations[hashAnnotation]:
			return "static pod " + name + " still runs an older manifest"
		case !isReady(have[i]):
			return "static pod " + name + " is not ready"
		}
	}

	for _, p := range have {
		wanted := slices.ContainsFunc(want, func(w staticPod) bool { return w.isMirror(p, node) })
		if p.Labels[staticLabel] == "true" && !wanted {
			return "static pod " + p.Namespace + "/" + p.Name + " is still there"
		}
	}
	return ""
}

func isReady(p *core.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodReady && c.Status == core.ConditionTrue
	})
}

// podsOf selects the pods of a Node.
func podsOf(a *api, node string) query {
	return query{
		client:   a.core,
		resource: "pods",
		fields:   fields.OneTermEqualSelector("spec.nodeName", node).String(),
	}
}
