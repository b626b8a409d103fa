// Command build builds the control plane and the registry of package cluster
// into the cache, so that tests find them there. It takes minutes, once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/loam-os/loam/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := cluster.Build(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
