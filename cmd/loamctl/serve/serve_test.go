package serve

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/agent/link/neighbour"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/pxe"
	"github.com/loam-os/loam/image/repository"
)

// TestServe reads a directory as a node does, by what the command prints.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()

	cmd := Command()
	cmd.SetArgs([]string{dir, "--listen", "127.0.0.1:0"})
	cmd.SetOut(w)
	ended := make(chan error, 1)

	go func() {
		ended <- cmd.ExecuteContext(ctx)
		w.Close()
	}()

	lines := bufio.NewScanner(out)
	expect := func(pattern string) string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("no line, want %s", pattern)
		}

		m := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(lines.Text())
		if m == nil {
			t.Fatalf("printed %q, want %s", lines.Text(), pattern)
		}

		return m[len(m)-1]
	}

	s, err := repository.Open(expect(`serving \S+ at (http://127\.0\.0\.1:\d+)`))
	if err != nil {
		t.Fatal(err)
	}

	body, err := s.Range(ctx, "file", 2, 3)
	if err != nil {
		t.Fatal(err)
	}

	got, err := io.ReadAll(body)
	body.Close()
	if string(got) != "234" || err != nil {
		t.Errorf("%q, %v", got, err)
	}

	expect(`127\.0\.0\.1:\d+ GET "/file" "bytes=2-4" 206 3`)
	if _, err := s.Get(ctx, "none", 100); err == nil {
		t.Error("a file out of nowhere")
	}

	expect(`127\.0\.0\.1:\d+ GET "/none" 404 \d+`)
	if got, err := s.Get(ctx, "out", 1<<20); err == nil || strings.Contains(string(got), "root:") {
		t.Errorf("a link out of the directory is followed: %q", got)
	}

	expect(`127\.0\.0\.1:\d+ GET "/out" [45]\d\d \d+`)
	cancel()

	if err := <-ended; err != nil {
		t.Errorf("error %v at the end", err)
	}
}

// TestAClientThatStops says half of what it wants, or takes nothing of what it
// asked for: its connection is closed. Time is not real.
func TestAClientThatStops(t *testing.T) {
	web := everything(t)

	for _, request := range []string{
		"",
		"GET /file HTTP/1.1\r\nHos",
		"POST /file HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
		"HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /v1/boot/00ff/root HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /v1/ipxe HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /v1/none HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		t.Run(strings.TrimSpace(request), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ended := connect(t, web)
				if _, err := io.WriteString(client, request); err != nil {
					t.Fatal(err)
				}
				<-ended
			})
		})
	}
}

// TestAClientThatIsSlow takes a part each 20 seconds, and gets all.
func TestAClientThatIsSlow(t *testing.T) {
	web := everything(t)
	for name, size := range map[string]int{"/file": 1 << 20, "/v1/boot/00ff/root": 2_000_000} {
		synctest.Test(t, func(t *testing.T) {
			client, ended := connect(t, web)
			if _, err := io.WriteString(client, "GET "+name+" HTTP/1.0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}

			got := 0
			part := make([]byte, 64<<10)
			for {
				n, err := client.Read(part)
				got += n
				if err != nil {
					break
				}
				time.Sleep(20 * time.Second)
			}
			if got < size {
				t.Errorf("%s: %d bytes of %d", name, got, size)
			}

			<-ended
		})
	}
}

// everything is a repository and a build to boot.
func everything(t *testing.T) http.Handler {
	t.Helper()
	dir, _, _ := servedBuild(t)
	build, err := pxe.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { build.Close() })
	offers := pxe.Offers{Builds: map[string]*pxe.Build{"amd64": build}}
	web := http.NewServeMux()
	web.Handle("/", updates(fstest.MapFS{"file": {Data: make([]byte, 1<<20)}}, io.Discard))
	web.Handle("/v1/", offers.Handler(nil, func(string, string, string) {}))

	return web
}

// connect has one client served, until its connection is closed.
func connect(t *testing.T, web http.Handler) (client net.Conn, ended <-chan error) {
	client, server := net.Pipe()
	l := make(listener, 1)
	l <- watched{server, sync.OnceFunc(func() { close(l) })}
	end := make(chan error, 1)
	go func() { end <- serve(t.Context(), l, neighbour.Network, web) }()

	return client, end
}

// listener has the connections that are in it, until it is closed.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (listener) Close() error   { return nil }
func (listener) Addr() net.Addr { return &net.TCPAddr{} }

// watched says that it is closed.
type watched struct {
	net.Conn
	closed func()
}

func (w watched) Close() error {
	w.closed()
	return w.Conn.Close()
}

// TestServeTurns takes a turn as the agent of a machine does, and has a second
// machine wait for it.
func TestServeTurns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()

	cmd := Command()
	state := filepath.Join(t.TempDir(), "loam-serve") // The command makes it.
	cmd.SetArgs([]string{"--turns", "1", "--state", state, "--listen", "127.0.0.1:0"})
	cmd.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		w.Close()
	}()

	lines := bufio.NewScanner(out)
	lines.Scan()
	url, ok := strings.CutPrefix(lines.Text(), "serving 1 turns at ")
	if !ok {
		t.Fatalf("printed %q", lines.Text())
	}

	one := fleetlock.Server{
		URL:    url,
		Client: fleetlock.Client{ID: "one", Group: "line-3"},
		HTTP:   http.DefaultClient,
	}
	two := one
	two.Client.ID = "two"
	if err := one.Lock(ctx); err != nil {
		t.Error(err)
	}
	if err := two.Lock(ctx); err == nil {
		t.Error("a second machine has a turn")
	}
	lines.Scan()
	if got := lines.Text(); got != "one of line-3 takes a turn: 1 of 1" {
		t.Errorf("printed %q", got)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("--state: %v, %v", info, err)
	}

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// machine.yaml may have the name of the server, which the server has to know.
func TestAMachineSaysHowToServeAName(t *testing.T) {
	mux := http.NewServeMux()
	turns, err := serveTurns(mux, t.TempDir(), 1, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer turns.Close()
	server := httptest.NewServer(hosts(nil).guard(mux))
	defer server.Close()

	dial := func(ctx context.Context, kind, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, kind, server.Listener.Addr().String())
	}
	err = fleetlock.Server{
		URL:    "http://turns.plant.example:8080",
		Client: fleetlock.Client{ID: "a", Group: "default"},
		HTTP:   &http.Client{Transport: &http.Transport{DialContext: dial}},
	}.Lock(t.Context())
	if err == nil || !strings.Contains(err.Error(), "loamctl serve --host NAME") {
		t.Errorf("the machine says: %v", err)
	}
}

func TestAStateThatIsAFileIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openState(file)
	if fault.Of(err) != fault.WrongFileType || !strings.HasPrefix(err.Error(), "--state: ") {
		t.Errorf("%v, %s", err, fault.Of(err))
	}
}

func TestFlagsOfTurns(t *testing.T) {
	for want, args := range map[string][]string{
		"--turns and --state go together; --state is missing": {"--turns", "1"},
		"--turns 0: want 1 or more":                           {".", "--turns", "0"},
		"--state is for --boot and --turns: both are missing": {".", "--state", "."},
		"want DIR, --boot or --turns; all are missing":        {},
	} {
		cmd := Command()
		cmd.SetArgs(args)
		cmd.SilenceUsage = true
		cmd.SilenceErrors = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
