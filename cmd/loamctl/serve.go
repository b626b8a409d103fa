package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

func serveCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve a repository of updates over HTTP, until Ctrl-C",
		Long: `serve is a web server for one directory, which is enough for nodes to take updates from:
plain files, with ranges. It needs no trust; what nodes take is signed. It prints each request.`,
		Example: `  loamctl serve updates
  loamctl serve updates --listen :8080`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := os.OpenRoot(args[0])
			if err != nil {
				return fmt.Errorf("%w\nhint: DIR is the directory of a repository: loamctl bundle --help", err)
			}
			defer root.Close()
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "serving %s at http://%s\n", args[0], l.Addr())
			return serve(cmd.Context(), l, logged(http.FileServerFS(root.FS()), cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address to listen at")
	return cmd
}

// serve serves until ctx ends, and then for a second what is under way.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	<-ended
	return nil
}

// logged prints a line for each answer: who, what, the range asked for, status and bytes.
func logged(h http.Handler, out io.Writer) http.Handler {
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(a, r)
		ranges := r.Header.Get("Range")
		if ranges != "" {
			ranges = fmt.Sprintf(" %.60q", ranges)
		}
		one.Lock()
		defer one.Unlock()
		fmt.Fprintf(out, "%s %s %.200q%s %d %d\n", r.RemoteAddr, r.Method, r.URL.Path, ranges, a.status, a.bytes)
	})
}

// answer counts.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}
