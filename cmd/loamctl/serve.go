package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/listen"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/pxe"
)

func serveCommand() *cobra.Command {
	var listen string
	var o bootOptions
	cmd := &cobra.Command{
		Use:   "serve [DIR] [--boot BUILD_DIR --state DIR]",
		Short: "Serve updates, and machines that boot from the network, until Ctrl-C",
		Long: `serve is a web server for one directory, which is enough for nodes to take updates from:
plain files, with ranges. It needs no trust; what nodes take is signed. It prints each request.
A repository with a damaged file is not served.

With --boot it is also all that machines need to boot a build from the network, beside the
network's own DHCP server, which stays as it is: ProxyDHCP (ports 67 and 4011; it gives no
addresses), TFTP (69) and HTTP. UEFI by PXE and by HTTP is served, and iPXE, on x86-64 and
arm64. --listen is then an address of this machine on their network. With one of IPv6 it is
HTTP alone, as DHCPv6 has no servers beside another, and prints what that one has to give.

--machines is a directory with the machine.yaml of each: 52:54:00:12:34:56.yaml by its MAC,
serial-NUMBER.yaml, uuid-UUID.yaml, and default.yaml for all others. What is changed there
counts from the next time that a machine asks. With files by MAC and UUID alone, only those
machines are booted; with others, or none, every machine that asks the network to boot it is
booted, as DHCP does not say serial numbers. Where a file says <<BOOTSTRAP_TOKEN>>, the
machine gets a join token, from a file (--tokens, one a line) or made in the cluster of
--kubeconfig. No token is for two machines; a machine that asks again while it installs itself gets
its own again. When it says that it is installed, its token is spent, and its firmware is sent
on to its disk; removing the file that is printed then has it boot from the network again.

Nothing proves which machine asks: it only says what its MAC and serial number are, and neither
HTTP, TFTP nor DHCP hides or signs anything. Whoever is on that network can read what a machine
gets, or get it in its place, its join token included. So use a network that only those machines
and their administrators are on, and tokens that end soon. Only machines with a file of
their own get a token, one for each file, unless --tokens-for-all.`,
		Example: `  loamctl serve updates
  loamctl serve updates --listen :8080
  loamctl serve --boot build/amd64-metal --boot build/arm64-metal --state /var/lib/loam-serve \
      --machines machines --tokens tokens.txt --listen 192.0.2.1:8080`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.builds) == 0 {
				return errors.New("want DIR or --boot; both are missing")
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			mux := http.NewServeMux()
			if len(args) == 1 {
				root, err := os.OpenRoot(args[0])
				if err != nil {
					return hint.With(err,
						"DIR is the directory of a repository: loamctl bundle --help")
				}
				defer root.Close()

				if err := verifyServed(cmd.Context(), root, args[0]); err != nil {
					return err
				}
				mux.Handle("/", updates(root.FS(), out))
			}

			if len(o.builds) > 0 {
				return o.serve(cmd.Context(), listen, mux, out)
			}

			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}

			fmt.Fprintf(out, "serving %s at http://%s\n", args[0], l.Addr())
			return serve(cmd.Context(), l, mux)
		},
	}

	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "address to listen at")
	f.StringArrayVar(&o.builds, "boot", nil,
		"a build that machines boot, one for each architecture")
	f.StringVar(&o.machines, "machines", "", "directory with the machine.yaml of each machine")
	f.StringVar(&o.state, "state", "", "directory for the record of tokens and installed machines")
	f.StringVar(&o.tokens, "tokens", "", "file with join tokens, one a line")
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster in which join tokens are made")
	f.DurationVar(&o.valid, "tokens-valid", time.Hour,
		"with --kubeconfig: how long a token is good")
	f.StringVar(&o.group, "tokens-group", "",
		"with --kubeconfig: one more group of a token's bearer: system:bootstrappers:…")
	f.BoolVar(&o.everybody, "tokens-for-all", false,
		"also machines without a file of their own get a token")
	cmd.MarkFlagsRequiredTogether("boot", "state")
	cmd.MarkFlagsMutuallyExclusive("tokens", "kubeconfig")

	return cmd
}

// verifyServed refuses a repository with a damaged file. A directory without
// metadata is served as it is: nodes take no updates from it.
func verifyServed(ctx context.Context, root *os.Root, dir string) error {
	if _, err := root.Stat("metadata"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := publish.Verify(ctx, dir)
	return err
}

// updates serves the files of a repository.
func updates(files fs.FS, out io.Writer) http.Handler {
	return pxe.Patient(logged(http.FileServerFS(files), out))
}

// maxOfHost is how many of maxConnections one host may have. A machine that
// boots has a few; more may share an address.
const maxOfHost = 32

// serve serves until ctx ends, and then gives requests in progress one second.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	// No request has a body to wait for. ReadTimeout also ends the context of a
	// request that is still being answered, as when a token is made for it;
	// WriteTimeout leaves a minute for the answer. A file has longer, while its
	// client takes it (pxe.Patient).
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       time.Minute,
	}

	ended := make(chan error, 1)
	l = listen.Limit(l, maxConnections, maxOfHost)
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

// logged prints a line for each answer: who, what, the range asked for, status
// and bytes.
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
		fmt.Fprintf(out, "%s %s %.200q%s %d %d\n",
			r.RemoteAddr, r.Method, r.URL.Path, ranges, a.status, a.bytes)
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
