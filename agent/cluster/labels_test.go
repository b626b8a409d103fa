package cluster

import (
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/status"
)

func TestDesiredMetaOf(t *testing.T) {
	c := Config{Zone: "z", KubernetesVersion: "1.36.3"}
	full := &core.Node{ObjectMeta: meta.ObjectMeta{
		Labels: map[string]string{
			roleLabel + "worker": "",
			zoneLabel:            "z",
			versionLabel:         "1.36.3",
		},
		Annotations: map[string]string{appliedAnnotation: "sum"},
	}}

	offered := func(sum string) *pendingConfig { return &pendingConfig{sum: sum, target: sum, label: sum} }
	refused := status.Status{Phase: status.Failed, Refused: true, Offered: "sum"}
	for _, tt := range []struct {
		name    string
		node    *core.Node
		status  status.Status
		offered *pendingConfig
		want    string
	}{
		{
			"a new Node",
			&core.Node{},
			status.Status{Version: "sum"},
			offered("sum"),
			`{"metadata":{"annotations":{"checksum/cloud-config-data":"sum"},"labels":{"node-role.kubernetes.io/worker":"","topology.kubernetes.io/zone":"z","worker.gardener.cloud/kubernetes-version":"1.36.3"}}}`,
		},
		{
			"a canary",
			&core.Node{ObjectMeta: meta.ObjectMeta{
				Labels: map[string]string{canaryLabel: "", roleLabel + "worker": "", zoneLabel: "z"},
				Annotations: map[string]string{
					canaryTriedAnnotation: `{"targets":["old"]}`,
				},
			}},
			status.Status{Version: "old", RootHash: "1234", ImageVersion: "2.0.0"},
			offered("new"),
			`{"metadata":{"annotations":{"loam.dev/tried":"{\"targets\":[\"old\",\"1234\"],\"version\":\"2.0.0\"}"}}}`,
		},
		{
			"a node that keeps its system",
			full,
			status.Status{Version: "sum", Upgrade: &status.Upgrade{Held: "db"}},
			offered("sum"),
			`{"metadata":{"annotations":{"loam.dev/held":"db"}}}`,
		},
		{
			"a node that kept its system",
			&core.Node{ObjectMeta: meta.ObjectMeta{
				Labels:      full.Labels,
				Annotations: map[string]string{appliedAnnotation: "sum", heldAnnotation: "db"},
			}},
			status.Status{Version: "sum", Upgrade: &status.Upgrade{}},
			offered("sum"),
			`{"metadata":{"annotations":{"loam.dev/held":null}}}`,
		},
		{"a Node with all labels", full, status.Status{Version: "sum"}, offered("sum"), ""},
		{
			"a Node of the control plane",
			full,
			status.Status{Version: "sum", ControlPlane: true},
			offered("sum"),
			`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
		},
		{
			"another configuration",
			full,
			status.Status{Version: "new"},
			offered("new"),
			`{"metadata":{"annotations":{"checksum/cloud-config-data":"new"}}}`,
		},
		{
			"the checksum in the Secret's annotation",
			full,
			status.Status{Version: "new"},
			&pendingConfig{sum: "new", label: "said"},
			`{"metadata":{"annotations":{"checksum/cloud-config-data":"said"}}}`,
		},
		{"while it is applied", full, status.Status{Phase: status.Applying}, offered("new"), ""},
		{"before the Secret is known", full, status.Status{Version: "sum"}, nil, ""},
		{
			"a reverted configuration",
			full,
			refused,
			offered("sum"),
			`{"metadata":{"annotations":{"checksum/cloud-config-data":null}}}`,
		},
		{"another reverted configuration", full, refused, offered("new"), ""},
		{
			"a unit that failed later",
			full,
			status.Status{Phase: status.Failed, Offered: "sum"},
			offered("sum"),
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(desiredMetaOf(c, tt.node, tt.status, tt.offered).patch(tt.node))
			if got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}
