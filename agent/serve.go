package agent

import (
	"context"
	"errors"
	"net"
	"net/http"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/metrics"
)

// serve runs the agent and lets people ask things of it. Without the socket the
// node is still looked after.
func serve(ctx context.Context, agent *loop.Loop, socket string, node control.Node) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := control.Listen(socket)
	if err != nil {
		agent.Log.Error("listen for people", zap.Error(err))
		return agent.Run(ctx)
	}
	served := make(chan error)
	go func() { served <- control.Serve(ctx, listener, node) }()
	err = agent.Run(ctx)
	cancel()
	return errors.Join(err, <-served)
}

// serveHTTP lets a monitoring system look, unless address is "". Without it the
// node is still looked after.
func (env Env) serveHTTP(ctx context.Context, address string, handler http.Handler) {
	if address == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err == nil {
		err = metrics.Serve(ctx, listener, handler)
	}
	if err != nil {
		env.Log.Error("serve by HTTP", zap.String("address", address), zap.Error(err))
	}
}
