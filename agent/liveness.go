package agent

import (
	"context"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/liveness"
)

// watchLiveness restarts containerd and the kubelet when they do not answer.
func (n *node) watchLiveness(ctx context.Context) {
	liveness.Watch{
		Probes: map[string]func(context.Context) error{
			"containerd.service": liveness.Containerd(liveness.ContainerdSocket),
			"kubelet.service":    liveness.Kubelet(liveness.KubeletAddress),
		},
		Standings: n.queries.Standings,
		Restart:   n.requests.RestartUnlessBusy,
		Report: func(e liveness.Event) {
			n.Log.Warn("liveness",
				zap.String("unit", e.Unit),
				zap.String("word", string(e.Word)),
				zap.String("problem", e.Problem),
				zap.Error(e.Err))
			if n.cluster != nil {
				n.cluster.Event(e.Word != liveness.Recovered, "UnitHealth", e.Text())
			}
		},
	}.Run(ctx)
}
