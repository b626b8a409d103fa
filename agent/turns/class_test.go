package turns

import (
	"testing"

	"github.com/loam-os/loam/agent/plan"
)

func TestClassOf(t *testing.T) {
	file := func(path string) plan.Plan {
		return plan.Plan{Files: []plan.File{{Path: path, Change: plan.Changed}}}
	}
	unit := func(name string, verb plan.Verb) plan.Plan {
		return plan.Plan{Units: []plan.Action{{Unit: name, Verb: verb}}}
	}

	for _, tt := range []struct {
		name string
		plan plan.Plan
		want Class
	}{
		{"nothing", plan.Plan{}, None},
		{"a file", file("/etc/motd"), None},
		{"a registry of containerd", file("/etc/containerd/certs.d/a/hosts.toml"), None},
		{"a static pod", file("/etc/kubernetes/manifests/etcd.yaml"), Kubelet},
		{"the network", file("/etc/systemd/network/10-a.network"), Kubelet},
		{"the pods' network", file("/etc/cni/net.d/10-a.conflist"), Pods},
		{"a new unit", unit("a.service", plan.Start), None},
		{"a reload", unit("kubelet.service", plan.Reload), None},
		{"the kubelet", unit("kubelet.service", plan.Restart), Kubelet},
		{"a unit that is not known", unit("a.service", plan.Restart), Kubelet},
		{"a unit that stops", unit("a.service", plan.Stop), Kubelet},
		{"containerd", unit("containerd.service", plan.Restart), Pods},
		{"a mount", unit("var-lib-a.mount", plan.Restart), Pods},
		{
			"the heaviest counts",
			plan.Plan{Units: []plan.Action{
				{Unit: "containerd.service", Verb: plan.Restart},
				{Unit: "kubelet.service", Verb: plan.Restart},
			}},
			Pods,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ClassOf(tt.plan); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestAClassOfALaterVersionIsTheHeaviest(t *testing.T) {
	var c Class
	if err := c.UnmarshalText([]byte("firmware")); err != nil || c != Reboot {
		t.Errorf("%s %v", c, err)
	}
}
