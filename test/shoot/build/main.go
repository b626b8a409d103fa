// Command build builds the programs of package shoot and renders its documents
// into the cache, so that tests find them there. It takes minutes, once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/loam-os/loam/test/shoot"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	if err := shoot.Build(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
