// Command build builds the control plane and the registry of package cluster
// into the cache, and makes a Kubernetes bundle of them, so that tests find them
// there. It takes minutes, once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	programs, err := cluster.Build(ctx, os.Stdout)
	if err == nil {
		_, err = upstream.Bundle(ctx, programs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
