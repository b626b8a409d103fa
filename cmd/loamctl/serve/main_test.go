package serve

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// server is the program of this test that is the command alone: a process of its own,
// in the network of the thread that starts it.
const server = "loamctl-serve"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){server: runServer})
}

// runServer runs the command until a signal ends it.
func runServer() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := Command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
