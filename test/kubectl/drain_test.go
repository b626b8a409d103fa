// Package kubectl compares Loam with kubectl's own code.
package kubectl

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	action "k8s.io/client-go/testing"
	"k8s.io/kubectl/pkg/drain"

	own "github.com/loam-os/loam/agent/drain"
)

// lists is how many lists of pods are compared.
const lists = 10_000

// choice is what a drain does about pods: those that it evicts, and those for
// which it does not begin.
type choice struct{ Evicts, Refuses []string }

// TestADrainIsThatOfKubectl compares the choices on generated lists of pods. All
// DaemonSets exist: a node cannot see them, and keeps the pods of one that was
// deleted, for which kubectl does not begin.
func TestADrainIsThatOfKubectl(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	evicts := 0
	refuses := 0
	for i := range lists {
		pods := generate(random)
		policy := own.Policy{
			Force:              random.IntN(2) == 0,
			DeleteEmptyDirData: random.IntN(2) == 0,
		}

		want := kubectl(t, pods, policy)
		got := loam(pods, policy)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("list %d, policy %+v (-kubectl +loam):\n%s", i, policy, diff)
		}
		evicts += len(got.Evicts)
		refuses += len(got.Refuses)
	}

	t.Logf("L3: %d lists, %d pods evicted, %d refused", lists, evicts, refuses)
	if evicts < lists || refuses < lists {
		t.Error("the lists have too few pods of a kind")
	}
}

// loam returns the choice of Loam.
func loam(pods []core.Pod, policy own.Policy) choice {
	var c choice
	selected := own.Select(pods, policy)
	for _, p := range selected.Evict {
		c.Evicts = append(c.Evicts, nameOf(p))
	}
	for _, p := range selected.Refused {
		c.Refuses = append(c.Refuses, p.Pod)
	}
	slices.Sort(c.Evicts)
	return c
}

// kubectl returns the choice of kubectl drain --ignore-daemonsets.
func kubectl(t *testing.T, pods []core.Pod, policy own.Policy) choice {
	t.Helper()
	client := &fake.Clientset{}
	client.AddReactor("list", "pods", func(action.Action) (bool, runtime.Object, error) {
		return true, &core.PodList{Items: pods}, nil
	})
	client.AddReactor("get", "daemonsets", func(action.Action) (bool, runtime.Object, error) {
		return true, &apps.DaemonSet{}, nil
	})

	helper := &drain.Helper{
		Ctx:                 t.Context(),
		Client:              client,
		Force:               policy.Force,
		DeleteEmptyDirData:  policy.DeleteEmptyDirData,
		IgnoreAllDaemonSets: true,
		Out:                 io.Discard,
		ErrOut:              io.Discard,
	}

	var c choice
	list, errs := helper.GetPodsForDeletion("node-1")
	for _, p := range list.Pods() {
		c.Evicts = append(c.Evicts, nameOf(p))
	}
	for _, err := range errs {
		// "cannot delete REASON: NAMESPACE/NAME, NAMESPACE/NAME"
		_, names, ok := strings.Cut(err.Error(), "): ")
		if !ok {
			t.Fatalf("kubectl: %v", err)
		}
		c.Refuses = append(c.Refuses, strings.Split(names, ", ")...)
	}
	slices.Sort(c.Evicts)
	slices.Sort(c.Refuses)
	return c
}

func nameOf(p core.Pod) string { return p.Namespace + "/" + p.Name }

// generate returns up to 12 pods of all kinds.
func generate(random *rand.Rand) []core.Pod {
	var pods []core.Pod
	for i := range random.IntN(13) {
		p := core.Pod{}
		p.Namespace = pick(random, "default", "kube-system")
		p.Name = fmt.Sprintf("pod-%02d", i)
		p.Spec.NodeName = "node-1"
		p.Status.Phase = pick(random, core.PodRunning, core.PodRunning, core.PodPending,
			core.PodSucceeded, core.PodFailed, core.PodUnknown, "")

		for _, kind := range []string{"ReplicaSet", "DaemonSet", "StatefulSet", "Job", "Node"} {
			if random.IntN(5) == 0 {
				p.OwnerReferences = append(p.OwnerReferences, meta.OwnerReference{
					APIVersion: pick(random, "apps/v1", "v1", "batch/v1"),
					Kind:       kind,
					Name:       "owner",
					Controller: pick(random, nil, new(true), new(true), new(false)),
				})
			}
		}

		if random.IntN(8) == 0 {
			p.Annotations = map[string]string{core.MirrorPodAnnotationKey: pick(random, "", "hash")}
		}
		if random.IntN(6) == 0 {
			p.DeletionTimestamp = new(meta.Now())
		}
		for range random.IntN(3) {
			p.Spec.Volumes = append(p.Spec.Volumes, pick(random, volumes...))
		}
		pods = append(pods, p)
	}
	return pods
}

// volumes are an emptyDir on disk, one in memory, and others.
var volumes = []core.Volume{
	{VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
	{VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{
		Medium: core.StorageMediumMemory,
	}}},
	{VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/var"}}},
	{VolumeSource: core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{}}},
	{VolumeSource: core.VolumeSource{
		PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{},
	}},
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }
