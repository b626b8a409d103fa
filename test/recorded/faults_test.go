package recorded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/container"
)

// screen is a node's console: every page that the loop prints there.
type screen struct {
	loop.Host

	mu    sync.Mutex
	pages []string
}

// Publish implements [loop.Host].
func (s *screen) Publish(now status.Status, news bool) error {
	err := s.Host.Publish(now, news)
	if !news {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = append(s.pages, now.Table(status.View{Width: 79, Lines: 23}))
	return err
}

// shows reports whether a page printed since the last clear matches.
func (s *screen) shows(want *regexp.Regexp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.pages, want.MatchString) {
		return nil
	}
	return fmt.Errorf("the console has no %s:\n%s", want, strings.Join(s.pages, "\n"))
}

func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = nil
}

// observed is a node in a container with real systemd, and what it says of
// itself in all places.
type observed struct {
	*fixture
	whole     testing.TB // of all faults
	container *container.Container
	units     *unit.Systemd
	front     *refusal
	screen    *screen
	queries   loop.Queries
	boot      string
	documents int
}

// fault is something that goes wrong on a node, and how it shows.
type fault struct {
	name string
	// begin has it happen, end has it pass.
	begin, end func()
	// status is in `loam status`, and console in a page printed on the console;
	// event is the reason and the beginning of a new Event of type Warning, ""
	// for none, as of a cluster that is not reached; reason is that of the
	// condition SystemdUnitsReady=False, "" if it stays True; metric is a line of
	// the metrics. None of them may be there before the fault begins.
	status, console, event, reason, metric string
}

// warning returns the reason of the Event of a fault, and a pattern of its text.
func (f fault) warning() (reason string, text *regexp.Regexp) {
	reason, begin, _ := strings.Cut(f.event, ": ")
	return reason, regexp.MustCompile("^Warning " + begin)
}

// TestFaultsShowEverywhereUntilTheyPass follows what goes wrong on a node, on
// its status, its console, its metrics and in the cluster, until the node is
// well again.
func TestFaultsShowEverywhereUntilTheyPass(t *testing.T) {
	t.Parallel()
	container.Run(t, faultsShow)
}

func faultsShow(t *testing.T, c *container.Container) {
	n := observe(t, c)
	n.isWell()

	for _, f := range n.faults() {
		passed := t.Run(f.name, func(t *testing.T) {
			n.TB = t
			n.follows(f)
		})
		if !passed {
			break // What follows needs a node that is well.
		}
	}
}

// observe makes a node that has joined a cluster and runs a configuration.
func observe(t *testing.T, c *container.Container) *observed {
	t.Helper()
	systemd := c.Connect(t)

	n := &observed{
		fixture:   newFixture(t, cluster.Options{Controllers: true}),
		whole:     t,
		container: c,
		units:     systemd,
		front:     &refusal{},
		screen:    &screen{},
		boot:      "boot-1",
	}
	n.interpose().answers = n.front.answer
	n.adjust = n.prepare

	for _, line := range [][]string{
		// No test reads what systemd reports of each reload: it would wait.
		{"umount", "/run/notify"},
		{"systemctl", "stop", "loam-agent.service"},
		{"mkdir", "-p", "/var/lib/loam"},
		{"mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", "/var/lib/loam"},
	} {
		if out := c.Command(t, line...); out != "" {
			t.Fatalf("%v: %s", line, out)
		}
	}

	text := n.document("sleep infinity", "")
	n.says(text)
	n.start(c.Root, n.BootstrapToken(t))
	n.approve()
	n.addNode()
	n.annotated(text)

	return n
}

// prepare gives a node that starts the real systemd, and patience for seconds.
func (n *observed) prepare(node *Node) {
	n.queries = make(loop.Queries)
	n.screen.Host = node.Agent.Host
	node.Agent.Host = n.screen
	node.Agent.Queries = n.queries
	node.Agent.Units = n.units
	node.Agent.Jobs.Units = n.units

	node.change(func(c *apply.Config) {
		c.BootID = n.boot
		c.Steady = time.Second
		c.JobWait = 10 * time.Second
		c.Limit = 10 * time.Second
	})
}

// document returns a configuration whose unit app.service runs a command, with
// more lines of its section [Service]; each is another one.
func (n *observed) document(command, more string) string {
	n.documents++

	return fmt.Sprintf(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  files:
  - {path: /etc/app, content: {inline: {data: "%d"}}}
  units:
  - name: app.service
    filePaths: [/etc/app]
    content: |
      [Service]
      ExecStart=%s
      %s
      [Install]
      WantedBy=multi-user.target
  - name: kubelet.service
    content: |
      [Service]
      ExecStart=sleep infinity
`, n.documents, command, more)
}

// good is a document that works.
func (n *observed) good() string { return n.document("sleep infinity", "") }

func (n *observed) follows(f fault) {
	n.Helper()
	n.isWithout(f)
	warned := n.warnings(f)
	n.screen.clear()
	f.begin()

	want := regexp.MustCompile(f.status)
	n.await("the status", func() error {
		s, err := n.status()
		if text := s.Table(status.View{Width: 79}); err == nil && !want.MatchString(text) {
			err = fmt.Errorf("the status has no %s:\n%s", want, text)
		}
		return err
	})
	n.await("the console", func() error {
		return n.screen.shows(regexp.MustCompile(f.console))
	})
	n.await("the metrics", func() error { return n.measures(f.metric) })

	if f.event != "" {
		n.await("an event", func() error {
			if said := n.warnings(f); len(said) <= len(warned) {
				return fmt.Errorf("%q, and nothing new", said)
			}
			return nil
		})
	}
	if f.reason != "" {
		n.conditioned("False", f.reason)
	}

	n.screen.clear()
	f.end()
	n.isWell()
}

// isWithout ends the test if a pattern of a fault is there before the fault: it
// would be there without the fault as well.
func (n *observed) isWithout(f fault) {
	n.Helper()
	s, err := n.status()
	if err != nil {
		n.Fatal(err)
	}
	page := s.Table(status.View{Width: 79})
	if regexp.MustCompile(f.status).MatchString(page) {
		n.Fatalf("before the fault, the status has %s:\n%s", f.status, page)
	}
	page = s.Table(status.View{Width: 79, Lines: 23})
	if regexp.MustCompile(f.console).MatchString(page) {
		n.Fatalf("before the fault, the console has %s:\n%s", f.console, page)
	}
	if err := n.measures(f.metric); !errors.Is(err, errNotMeasured) {
		n.Fatalf("before the fault, the metrics have %s: %v", f.metric, err)
	}
}

// warnings returns the Events like the one of a fault. Earlier faults have left
// some.
func (n *observed) warnings(f fault) []string {
	n.Helper()
	reason, text := f.warning()
	said, err := n.events(reason)
	if err != nil {
		n.Fatal(err)
	}
	return slices.DeleteFunc(said, func(event string) bool { return !text.MatchString(event) })
}

// errNotMeasured says that the metrics do not have a line.
var errNotMeasured = errors.New("not measured")

// measures returns an error unless the metrics have a line.
func (n *observed) measures(line string) error {
	ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
	defer cancel()

	sample, err := n.queries.Take(ctx)
	if err != nil {
		return err
	}
	if text := sample.Text(); !strings.Contains("\n"+text, "\n"+line+"\n") {
		return fmt.Errorf("%w: the metrics have no %s:\n%s", errNotMeasured, line, text)
	}

	return nil
}

// isWell waits until nothing of a fault is left anywhere.
func (n *observed) isWell() {
	n.Helper()
	n.await("a node that is well", func() error {
		s, err := n.status()
		switch {
		case err != nil:
			return err
		case s.Phase != status.Applied, s.Error != nil, s.Change != nil, !s.Cluster.Connected,
			s.Cluster.Problem != "":
			return fmt.Errorf("not well:\n%s", s.Table(status.View{Width: 79}))
		}
		return n.measures(`loam_health{state="well"} 1`)
	})
	n.conditioned("True", "AllUnitsHealthy")
}

// heals sends a document that works, and waits for it.
func (n *observed) heals() { n.Helper(); n.becomes(n.good()) }

// faults returns what goes wrong, each on a node that is well.
func (n *observed) faults() []fault {
	const (
		takenBack = `was\s+taken\s+back:\s+unit\s+app\.service`
		reverted  = `loam_applies_total{outcome="reverted"} %d`
	)
	var end func()

	return []fault{
		{
			name:    "a unit fails",
			begin:   func() { n.says(n.document("sh -c 'echo no disk; exit 3'", "")) },
			end:     n.heals,
			status:  takenBack + `\s+failed`,
			console: takenBack + `\s+failed`,
			event:   `OSCReverted: generation \S+ ` + takenBack + `\s+failed`,
			reason:  "OSCReverted",
			metric:  fmt.Sprintf(reverted, 1),
		},
		{
			name:    "a unit hangs as it starts",
			begin:   func() { n.says(n.document("sleep infinity", "Type=notify")) },
			end:     n.heals,
			status:  takenBack + `\s+is\s+activating/start`,
			console: takenBack + `\s+is\s+activating/start`,
			event:   `OSCReverted: generation \S+ ` + takenBack + `\s+is\s+activating/start`,
			reason:  "OSCReverted",
			metric:  fmt.Sprintf(reverted, 2),
		},
		{
			name: "a unit starts again and again",
			begin: func() {
				n.says(n.document("sleep 0.05", "Restart=always\n      RestartSec=50ms"))
			},
			end:     n.heals,
			status:  takenBack,
			console: takenBack,
			event:   `OSCReverted: generation \S+ ` + takenBack,
			reason:  "OSCReverted",
			metric:  fmt.Sprintf(reverted, 3),
		},
		{
			name: "a unit fails later",
			begin: func() {
				n.container.Command(n.TB, "systemctl", "kill", "-s", "KILL", "app.service")
			},
			end: func() {
				n.container.Command(n.TB, "systemctl", "start", "app.service")
			},
			status:  `app\.service +\*failed`,
			console: `app\.service +\*failed`,
			reason:  "UnhealthyUnits",
			metric:  `loam_units{state="failed"} 1`,
		},
		{
			name: "the disk is full",
			begin: func() {
				n.fill()
				n.says(n.good() + strings.Replace(big, "SIZE", strings.Repeat("x", 64<<10), 1))
			},
			end: func() {
				n.empty()
				n.heals()
			},
			status:  `no space left on device`,
			console: `no space left on device`,
			event:   "OSCNotApplied: ",
			metric:  `loam_health{state="degraded"} 1`,
		},
		{
			name:    "the API server is gone",
			begin:   func() { n.StopAPI(n.TB) },
			end:     func() { n.StartAPI(n.TB) },
			status:  `not reached since`,
			console: `not reached since`,
			metric:  `loam_cluster_connected 0`,
		},
		{
			name: "the API server does not answer",
			begin: func() {
				end = n.front.begin(hangs, "", isRenewal)
				n.leaseDue()
			},
			end:     func() { end() },
			status:  `not reached since`,
			console: `not reached since`,
			metric:  `loam_cluster_connected 0`,
		},
		{
			name: "the API server answers nonsense",
			begin: func() {
				end = n.front.begin(http.StatusInternalServerError, "Nonsense",
					func(*http.Request) bool { return true })
				n.leaseDue()
			},
			end:     func() { end() },
			status:  `not reached since`,
			console: `not reached since`,
			metric:  `loam_cluster_connected 0`,
		},
		{
			name: "the Node is deleted",
			begin: func() {
				n.must("DELETE", nodes+"/node-1", "")
			},
			end: func() {
				n.registersAgain()
				n.addNode()
			},
			status:  `Node node-1 is gone`,
			console: `Node node-1 is gone`,
			metric:  `loam_node_registered 0`,
		},
		{
			name: "the clock is years ahead",
			begin: func() {
				n.ahead.Store(int64(5 * 365 * 24 * time.Hour))
				n.restarts()
			},
			end: func() {
				n.ahead.Store(0)
				n.restarts()
			},
			status:  `clock\s+says`,
			console: `clock\s+says`,
			metric:  `loam_cluster_connected 0`,
		},
		{
			name: "the power is cut while a change is on trial",
			begin: func() {
				ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
				defer cancel()
				request := control.ApplyRequest{Document: n.good(), Try: time.Hour}
				if _, err := n.node.requests.Apply(ctx, request); err != nil {
					n.Fatal(err)
				}
				n.boot = "boot-2"
				n.restarts()
			},
			end:     n.heals,
			status:  `not\s+confirmed`,
			console: `not\s+confirmed`,
			metric:  `loam_applies_total{outcome="reverted"} 1`,
		},
	}
}

// restarts ends the agent and starts it again. It outlives the fault.
func (n *observed) restarts() {
	n.Helper()
	during := n.TB
	defer func() { n.TB = during }()

	n.TB = n.whole
	n.stop()
	n.startAgain()
}

// registersAgain waits until the kubelet was restarted, which registers its Node
// when it starts.
func (n *observed) registersAgain() {
	n.Helper()
	before := n.invocation("kubelet.service")
	n.await("a kubelet that starts again", func() error {
		if n.invocation("kubelet.service") == before {
			return errors.New("it is the same")
		}
		return nil
	})
}

// invocation returns systemd's ID of a unit's run.
func (n *observed) invocation(name string) string {
	n.Helper()
	states, err := n.units.Show(n.Context(), []string{name})
	if err != nil {
		n.Fatal(err)
	}
	return states[0].InvocationID
}

// big is a file that needs room.
const big = `  files:
  - {path: /etc/big, content: {inline: {data: "SIZE"}}}
`

// fill leaves no room on the node's state partition.
func (n *observed) fill() {
	n.Helper()
	f, err := os.Create(filepath.Join(n.container.Root, "var/lib/loam/fill"))
	if err != nil {
		n.Fatal(err)
	}
	defer f.Close()

	chunk := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(chunk)
	}
	if !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		n.Fatal(err)
	}
}

// empty gives the room back.
func (n *observed) empty() {
	n.Helper()
	if err := os.Remove(filepath.Join(n.container.Root, "var/lib/loam/fill")); err != nil {
		n.Fatal(err)
	}
}
