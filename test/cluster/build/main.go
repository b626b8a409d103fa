// Command build builds the programs of package cluster into the cache, and makes a
// Kubernetes bundle of them, so that tests find them there. With names of programs
// it builds their modules only. It takes minutes, once.
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
	names := os.Args[1:]
	programs, err := cluster.Build(ctx, os.Stdout, names...)
	if err == nil && len(names) == 0 {
		_, err = upstream.Bundle(ctx, programs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
