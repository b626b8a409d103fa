package drain_test

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/drain"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// begun is a Node whose drain began at noon.
func begun() *core.Node {
	n := &core.Node{}
	n.Annotations = map[string]string{
		drain.Annotation: `{"since":"2026-03-01T12:00:00Z","cordoned":true}`,
	}
	n.Spec.Unschedulable = true
	for _, kind := range []core.NodeConditionType{
		core.NodeMaintenancePlanned, core.NodeDrainInProgress,
	} {
		n.Status.Conditions = append(n.Status.Conditions, core.NodeCondition{
			Type:   kind,
			Status: core.ConditionTrue,
			Reason: "LoamDrain",
		})
	}
	return n
}

func TestNext(t *testing.T) {
	tried := map[types.UID]drain.Try{"uid of a": {Again: noon.Add(8 * time.Second)}}
	for _, tt := range []struct {
		name  string
		edit  func(s *drain.State)
		want  drain.Kind
		until time.Duration
	}{
		{"the Node is not known", func(s *drain.State) { s.Node = nil }, drain.Read, 0},
		{"the pods are not known", func(s *drain.State) { s.Listed = false }, drain.List, 0},
		{"a Node that is not cordoned", func(s *drain.State) {
			s.Node = &core.Node{}
		}, drain.Cordon, 0},
		{"a Node that is cordoned by an operator", func(s *drain.State) {
			s.Node = &core.Node{Spec: core.NodeSpec{Unschedulable: true}}
		}, drain.Cordon, 0},
		{"a Node without the condition", func(s *drain.State) {
			s.Node.Status.Conditions = nil
		}, drain.Report, 0},
		{"a pod", func(*drain.State) {}, drain.Evict, 0},
		{"a pod that was tried", func(s *drain.State) { s.Tries = tried }, drain.Wait,
			5 * time.Second},
		{"a pod to be tried again soon", func(s *drain.State) {
			s.Tries = tried
			s.Now = noon.Add(7 * time.Second)
		}, drain.Wait, 8 * time.Second},
		{"a pod to be tried again", func(s *drain.State) {
			s.Tries = tried
			s.Now = noon.Add(8 * time.Second)
		}, drain.Evict, 0},
		{"a pod that ends", func(s *drain.State) {
			s.Pods[0].DeletionTimestamp = new(meta.NewTime(noon))
		}, drain.Wait, 5 * time.Second},
		{"before the timeout", func(s *drain.State) {
			s.Tries = tried
			s.Now = noon.Add(7 * time.Second)
			s.Policy.Timeout = 7500 * time.Millisecond
		}, drain.Wait, 7500 * time.Millisecond},
		{"after the timeout", func(s *drain.State) {
			s.Tries = tried
			s.Now = noon.Add(time.Hour)
		}, drain.Done, 0},
		{"after the timeout, by an agent that has not tried", func(s *drain.State) {
			s.Now = noon.Add(time.Hour)
		}, drain.Evict, 0},
		{"after the clock was set back", func(s *drain.State) {
			s.Tries = tried
			s.Now = noon.Add(-time.Hour)
		}, drain.Cordon, 0},
		{"after the clock was set back, and the change is over", func(s *drain.State) {
			s.Over = true
			s.Now = noon.Add(-time.Hour)
			s.Node.Status.Conditions = nil
		}, drain.Uncordon, 0},
		{"after the clock was set back, and an operator has uncordoned", func(s *drain.State) {
			s.Now = noon.Add(-time.Hour)
			s.Node.Spec.Unschedulable = false
		}, drain.Done, 0},
		{"no pods, not reported", func(s *drain.State) { s.Pods = nil }, drain.Report, 0},
		{"no pods, reported", func(s *drain.State) {
			s.Pods = nil
			s.Node.Status.Conditions = []core.NodeCondition{
				{Type: core.NodeDrained, Status: core.ConditionTrue},
				{Type: core.NodeMaintenanceInProgress, Status: core.ConditionTrue},
			}
		}, drain.Done, 0},
		{"a record that cannot be read", func(s *drain.State) {
			s.Node.Annotations[drain.Annotation] = "{"
			s.Tries = tried
		}, drain.Done, 0},
		{"the change is over", func(s *drain.State) { s.Over = true }, drain.Report, 0},
		{"the change is over, and reported", func(s *drain.State) {
			s.Over = true
			s.Node.Status.Conditions = nil
		}, drain.Uncordon, 0},
		{"the change of a Node with a condition of others is over", func(s *drain.State) {
			s.Over = true
			s.Node.Status.Conditions = s.Node.Status.Conditions[:1]
			s.Node.Status.Conditions[0].Reason = "MaintenanceWindow"
		}, drain.Uncordon, 0},
		{"a Node that is not drained", func(s *drain.State) {
			s.Over = true
			s.Node = &core.Node{Spec: core.NodeSpec{Unschedulable: true}}
		}, drain.Done, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := drain.State{
				Policy: tenMinutes,
				Now:    noon,
				Node:   begun(),
				Pods:   []core.Pod{newPod("a")},
				Listed: true,
			}
			tt.edit(&s)

			got := drain.Next(s)
			if got.Kind != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
			if got.Kind == drain.Wait && !got.Until.Equal(noon.Add(tt.until)) {
				t.Errorf("until %s, want %s", got.Until.Sub(noon), tt.until)
			}
		})
	}
}
