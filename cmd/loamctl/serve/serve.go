package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/link/neighbour"
	"github.com/loam-os/loam/agent/listen"
	"github.com/loam-os/loam/cmd/complete"
	"github.com/loam-os/loam/cmd/loamctl/fleetlock"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/pxe"
)

// Command is `loamctl serve`.
func Command() *cobra.Command {
	var listen string
	var names hosts
	var slots int
	var o bootOptions
	cmd := &cobra.Command{
		Use:               "serve [DIR] [--boot BUILD_DIR --state DIR] [--turns N --state DIR]",
		ValidArgsFunction: complete.Directories,
		Short:             "Serve updates, machines that boot from the network, and turns, until Ctrl-C",
		Long: `serve is a web server for one directory, which is enough for nodes to take updates from:
plain files, with ranges. It needs no trust; what nodes take is signed. It prints each request.
A repository with a damaged file is not served.

With --turns it also says which machines may restart for an upgrade, by the FleetLock protocol: at
most N of each group at a time. Nodes ask it if machine.yaml names it as upgrade.turns.fleetlock.
Who has a turn is in --state, and listed at /v1/turns. It trusts whoever asks it, if they call
it by the address that they are connected to, or by a --host: web pages cannot.

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
their own get a token, one for each file, unless --tokens-for-all. A machine on the server's
own link gets nothing for a MAC that is not its own, unless --relayed.`,
		Example: `  loamctl serve updates
  loamctl serve updates --listen :8080
  loamctl serve updates --turns 2 --state /var/lib/loam-serve --listen 192.0.2.1:8080
  loamctl serve --boot build/amd64-metal --boot build/arm64-metal --state /var/lib/loam-serve \
      --machines machines --tokens tokens.txt --listen 192.0.2.1:8080`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.builds) == 0 && slots == 0 {
				return errors.New("want DIR, --boot or --turns; all are missing")
			}
			if err := checkFlags(cmd, listen, len(o.builds) > 0); err != nil {
				return err
			}
			if err := checkTurns(cmd, slots, len(o.builds) > 0); err != nil {
				return err
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			mux := http.NewServeMux()
			if len(args) == 1 {
				root, err := os.OpenRoot(args[0])
				if errors.Is(err, fs.ErrPermission) {
					return err
				}
				if err != nil {
					return hint.With(notADirectory(err),
						"DIR is the directory of a repository: loamctl bundle --help")
				}
				defer root.Close()

				if err := verifyServed(cmd.Context(), root, args[0], cmd.ErrOrStderr()); err != nil {
					return err
				}
				mux.Handle("/", updates(root.FS(), out))
			}

			if slots > 0 {
				closer, err := serveTurns(mux, o.state, slots, out)
				if err != nil {
					return err
				}
				defer closer.Close()
			}

			if len(o.builds) > 0 {
				return o.serve(cmd.Context(), listen, mux, names, out)
			}

			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}

			what := strings.Join(args, "")
			if slots > 0 {
				what = strings.TrimPrefix(what+fmt.Sprintf(" and %d turns", slots), " and ")
			}
			fmt.Fprintf(out, "serving %s at http://%s\n", what, l.Addr())
			return serve(cmd.Context(), l, neighbour.Of, names.guard(mux))
		},
	}

	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "`ADDRESS` to listen at: host and port")
	f.StringArrayVar((*[]string)(&names), "host", nil,
		"another `NAME` or address by which machines call this server")
	f.StringArrayVar(&o.builds, "boot", nil,
		"`DIR` of a build that machines boot, one for each architecture")
	f.StringVar(&o.machines, "machines", "", "`DIR` with the machine.yaml of each machine")
	f.IntVar(&slots, "turns", 0, "how many machines of a group may restart at a time: `N`")
	f.StringVar(&o.state, "state", "",
		"`DIR` for the record of tokens, installed machines and turns")
	f.StringVar(&o.tokens, "tokens", "", "`FILE` with join tokens, one a line")
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE` of the cluster in which join tokens are made")
	f.DurationVar(&o.valid, "tokens-valid", time.Hour,
		"with --kubeconfig: a token is good for that `TIME`, such as 30m")
	f.StringVar(&o.group, "tokens-group", "",
		"with --kubeconfig: one more `GROUP` of a token's bearer: system:bootstrappers:…")
	f.BoolVar(&o.everybody, "tokens-for-all", false,
		"also machines without a file of their own get a token")
	f.BoolVar(&o.relayed, "relayed", false,
		"a router or switch answers ARP for machines: do not compare their MACs")
	cmd.MarkFlagsMutuallyExclusive("tokens", "kubeconfig")

	return cmd
}

// checkTurns refuses a number of turns that is none, and a state that is missing
// or not used.
func checkTurns(cmd *cobra.Command, slots int, boots bool) error {
	hasState := cmd.Flags().Changed("state")
	switch {
	case cmd.Flags().Changed("turns") && slots < 1:
		return hint.With(fmt.Errorf("--turns %d: want 1 or more", slots),
			"with no turn, no machine could ever restart")
	case (slots > 0 || boots) && !hasState:
		name := "boot"
		if slots > 0 {
			name = "turns"
		}
		return fmt.Errorf("--%s and --state go together; --state is missing", name)
	case hasState && slots == 0 && !boots:
		return errors.New("--state is for --boot and --turns: both are missing")
	}
	return nil
}

// serveTurns adds turns to a mux. Their record is in the directory state, until
// the closer is closed.
func serveTurns(mux *http.ServeMux, state string, slots int, out io.Writer) (io.Closer, error) {
	root, err := openState(state)
	if err != nil {
		return nil, err
	}
	server, err := fleetlock.Open(root, slots, time.Now, out)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", state, err), root.Close())
	}
	server.Register(mux)
	return turnsOf{server, root}, nil
}

// openState opens the directory of --state, and makes it if it is not there. Only
// its owner may read it: it has join tokens.
func openState(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--state: %w", notADirectory(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", notADirectory(err))
	}
	return root, nil
}

// turnsOf is a server of turns with the directory of its record.
type turnsOf struct{ server, root io.Closer }

func (t turnsOf) Close() error { return errors.Join(t.server.Close(), t.root.Close()) }

// notADirectory gives an error of [os.OpenRoot] its code. For a file it is not the
// error of the kernel.
func notADirectory(err error) error {
	if fault.Of(err) == fault.Failed {
		return fault.With(err, fault.WrongFileType)
	}
	return err
}

// checkFlags refuses an address that no server can listen at, and flags that do
// nothing without --boot.
func checkFlags(cmd *cobra.Command, listen string, boots bool) error {
	_, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("--listen %s: want HOST:PORT, such as 127.0.0.1:8080", listen)
	}

	for _, name := range []string{"machines", "tokens", "kubeconfig", "tokens-for-all", "relayed"} {
		if !boots && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for machines that boot from here: --boot is missing", name)
		}
	}
	return nil
}

// verifyServed refuses a repository with a damaged file. A directory without
// metadata is served as it is, with a warning.
func verifyServed(ctx context.Context, root *os.Root, dir string, out io.Writer) error {
	if _, err := root.Stat("metadata"); errors.Is(err, fs.ErrNotExist) {
		_, err := fmt.Fprintf(out, "warning: %s is not a repository, and nodes take no updates from "+
			"it; all of its files are served\n", dir)
		return err
	}
	bar := progress.New(out)
	defer bar.Close()
	_, err := publish.Verify(ctx, dir, bar.Update)
	return err
}

// updates serves the files of a repository.
func updates(files fs.FS, out io.Writer) http.Handler {
	return pxe.Patient(logged(http.FileServerFS(files), out))
}

// serve serves until ctx ends, and then gives requests in progress one second.
func serve(ctx context.Context, l net.Listener, owner listen.Owner, h http.Handler) error {
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
	l = listen.Limit(l, maxConnections, owner)
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
