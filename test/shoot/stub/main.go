// Command stub stands in for the programs that a Gardener document starts and
// that no container has: the kubelet and the log shippers. The name it is
// started under decides which one it is. Like the real programs, it exits with
// an error if a file on its command line is missing, and otherwise serves the
// address that others probe until it is stopped.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// program is what the stub knows about one program.
type program struct {
	// config is the flag that names the configuration file.
	config string
	// address and path are where it answers, empty if nothing probes it.
	address, path string
}

var programs = map[string]program{
	"kubelet": {
		config:  "--config",
		address: "127.0.0.1:10248",
		path:    "/healthz",
	},
	"opentelemetry-collector": {
		config:  "--config",
		address: "127.0.0.1:18888",
		path:    "/metrics",
	},
	"valitail": {config: "-config.file"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	err := run(ctx, filepath.Base(os.Args[0]), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, args []string) error {
	p, ok := programs[name]
	if !ok {
		return fmt.Errorf("no program %q", name)
	}

	config, ok := flagValue(args, p.config)
	if !ok {
		return fmt.Errorf("%s: no flag %s", name, p.config)
	}

	_, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	if p.address == "" {
		<-ctx.Done()
		return nil
	}

	return serve(ctx, p)
}

// flagValue returns the value of the flag in args, which has the form
// flag=value.
func flagValue(args []string, flag string) (string, bool) {
	for _, arg := range args {
		value, found := strings.CutPrefix(arg, flag+"=")
		if found {
			return value, true
		}
	}
	return "", false
}

// serve answers at the program's address until ctx ends.
func serve(ctx context.Context, p program) error {
	mux := http.NewServeMux()
	mux.HandleFunc(p.path, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})

	server := &http.Server{Addr: p.address, Handler: mux}
	context.AfterFunc(ctx, func() { _ = server.Close() })

	err := server.ListenAndServe()

	if ctx.Err() != nil {
		return nil
	}

	return err
}
