package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/cluster/credentials"
)

// kubeletDeadline is how long the kubelet has to become healthy, kubeletTimeout
// how long it has to answer a request, kubeletPoll how often it is asked.
const (
	kubeletDeadline = 5 * time.Minute
	kubeletTimeout  = 10 * time.Second
	kubeletPoll     = 5 * time.Second
)

// pollKubelet calls healthy until it succeeds or kubeletDeadline has passed.
func pollKubelet(ctx context.Context, healthy func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletDeadline)
	defer cancel()

	for {
		try, end := context.WithTimeout(ctx, kubeletTimeout)
		err := healthy(try)
		end()
		if err == nil {
			return nil
		}

		pause(ctx, kubeletPoll)
		if ctx.Err() != nil {
			return fmt.Errorf("the kubelet is not healthy after its restart: %w", err)
		}
	}
}

// rejoinKubelet makes the kubelet request a certificate of the new authority
// with its present one. While it rotates its certificate, the kubelet is
// healthy before it has the new one.
func rejoinKubelet(ctx context.Context, env Env, config Config) error {
	store := credentials.Open(env.Root)
	if err := store.PrepareRejoin(config.target()); err != nil {
		return err
	}
	if err := env.Restart(ctx, []string{kubeletUnit}); err != nil {
		return err
	}
	return pollKubelet(ctx, func(ctx context.Context) error {
		if err := env.Kubelet(ctx); err != nil {
			return err
		}
		_, err := store.KubeletCertificate()
		return err
	})
}
