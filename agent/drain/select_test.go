package drain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/drain"
)

// newPod is a running pod of a ReplicaSet.
func newPod(name string) core.Pod {
	return core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace:       "default",
			Name:            name,
			UID:             types.UID("uid of " + name),
			OwnerReferences: ownedBy("ReplicaSet"),
		},
		Status: core.PodStatus{Phase: core.PodRunning},
	}
}

func ownedBy(kind string) []meta.OwnerReference {
	return []meta.OwnerReference{{
		APIVersion: "apps/v1",
		Kind:       kind,
		Name:       "owner",
		Controller: new(true),
	}}
}

func TestSelect(t *testing.T) {
	emptyDir := []core.Volume{{VolumeSource: core.VolumeSource{
		EmptyDir: &core.EmptyDirVolumeSource{},
	}}}
	const (
		gone    = "evict"
		stays   = "stay"
		noOwner = "has no controller that would create it again"
		hasData = "has data in an emptyDir"
	)

	for _, tt := range []struct {
		name   string
		edit   func(p *core.Pod)
		policy drain.Policy
		want   string
	}{
		{"a pod of a ReplicaSet", func(*core.Pod) {}, drain.Policy{}, gone},
		{"a pod of a DaemonSet", func(p *core.Pod) {
			p.OwnerReferences = ownedBy("DaemonSet")
		}, drain.Policy{Force: true}, stays},
		{"a finished pod of a DaemonSet", func(p *core.Pod) {
			p.OwnerReferences = ownedBy("DaemonSet")
			p.Status.Phase = core.PodFailed
		}, drain.Policy{}, gone},
		{"a pod of a DaemonSet that is none of Kubernetes", func(p *core.Pod) {
			p.OwnerReferences = ownedBy("DaemonSet")
			p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
		}, drain.Policy{}, gone},
		{"a mirror pod", func(p *core.Pod) {
			p.OwnerReferences = ownedBy("Node")
			p.Annotations = map[string]string{core.MirrorPodAnnotationKey: "hash"}
		}, drain.Policy{Force: true}, stays},
		{"a finished pod without controller", func(p *core.Pod) {
			p.OwnerReferences = nil
			p.Status.Phase = core.PodSucceeded
		}, drain.Policy{}, gone},
		{"a pod without controller", func(p *core.Pod) {
			p.OwnerReferences = nil
		}, drain.Policy{}, noOwner},
		{"a pod whose owner is no controller", func(p *core.Pod) {
			p.OwnerReferences[0].Controller = nil
		}, drain.Policy{}, noOwner},
		{"a pod without controller, by force", func(p *core.Pod) {
			p.OwnerReferences = nil
		}, drain.Policy{Force: true}, gone},
		{"a pod with an emptyDir", func(p *core.Pod) {
			p.Spec.Volumes = emptyDir
		}, drain.Policy{Force: true}, hasData},
		{"a pod with an emptyDir whose data may go", func(p *core.Pod) {
			p.Spec.Volumes = emptyDir
		}, drain.Policy{DeleteEmptyDirData: true}, gone},
		{"a pod that ends", func(p *core.Pod) {
			p.DeletionTimestamp = new(meta.Now())
		}, drain.Policy{}, gone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPod("a")
			tt.edit(&p)
			s := drain.Select([]core.Pod{p}, tt.policy)

			got := stays
			switch {
			case len(s.Evict) == 1 && len(s.Refused) == 0:
				got = gone
			case len(s.Refused) == 1 && len(s.Evict) == 0:
				got = s.Refused[0].Why
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestPodsOfLowPriorityGoFirst(t *testing.T) {
	low := newPod("z")
	low.Spec.Priority = new(int32(-5))
	high := newPod("b")
	high.Spec.Priority = new(int32(1000))

	var names []string
	for _, p := range drain.Select([]core.Pod{high, newPod("d"), newPod("c"), low},
		drain.Policy{}).Evict {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"z", "c", "d", "b"}, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
