package enroll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
)

var (
	one = []string{"52:54:00:00:00:01", "52:54:00:00:00:11"}
	two = []string{"52:54:00:00:00:02"}
)

const (
	first  = "aaaaaa.0000000000000001"
	second = "aaaaaa.0000000000000002"
)

// fixture is a server with tokens in a file. Tests start it again and again.
type fixture struct {
	t      *testing.T
	path   string
	list   List
	now    time.Time
	source Source
	*Record
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{
		t:    t,
		path: t.TempDir(),
		list: List(filepath.Join(t.TempDir(), "tokens")),
		now:  time.Unix(1e9, 0),
	}

	w.source = w.list
	err := os.WriteFile(string(w.list), []byte("# of Monday\n"+first+"\n\n"+second+"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}

	w.start()
	t.Cleanup(func() { w.Close() })
	return w
}

func (w *fixture) start() {
	w.t.Helper()
	root, err := os.OpenRoot(w.path)
	if err != nil {
		w.t.Fatal(err)
	}

	w.Record, err = Open(root, w.source, func() time.Time { return w.now })
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) restart() {
	w.t.Helper()
	w.Close()
	w.start()
}

// gets wants a machine to get this token, or an error with this text.
func (w *fixture) gets(macs []string, token, wantErr string) {
	w.t.Helper()
	got, err := w.Token(w.t.Context(), "", macs)
	if got != token || (err != nil) != (wantErr != "") ||
		(err != nil && !strings.Contains(hint.Line(err), wantErr)) {
		w.t.Errorf("%s got %q, %v, want %q, %q", macs[0], got, err, token, wantErr)
	}
}

func TestATokenIsForOneMachine(t *testing.T) {
	w := newFixture(t)
	w.gets(one, first, "")
	w.gets(one, first, "")
	w.gets(one[1:], first, "") // by its other network device
	w.restart()
	w.gets(two, second, "")
	w.gets(one, first, "")
	w.gets([]string{"52:54:00:00:00:03"}, "",
		"all 2 tokens in "+string(w.list)+" were given; hint: add more")

	info, err := os.Stat(filepath.Join(w.path, grantsFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record is for others to read: %v, %v", info.Mode(), err)
	}
}

// TestATokenThatIsTakenBack removes a line, as the operator does for an expired
// token.
func TestATokenThatIsTakenBack(t *testing.T) {
	w := newFixture(t)
	w.gets(one, first, "")
	if err := os.WriteFile(string(w.list), []byte(second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	w.gets(one, second, "")
	w.gets(two, "", "were given")
}

func TestAnInstalledMachineHasHadItsToken(t *testing.T) {
	w := newFixture(t)
	w.gets(one, first, "")
	if w.IsInstalled(one[0], nil) {
		t.Error("installed before it said so")
	}

	undo, err := w.Installed("", Machine{MACs: one, Serial: "1"})
	if err != nil {
		t.Fatal(err)
	}

	w.restart()
	for _, mac := range one {
		if !w.IsInstalled(mac, nil) {
			t.Errorf("%s is not installed", mac)
		}
	}

	if w.IsInstalled(two[0], nil) || w.IsInstalled("../tokens.json", nil) || w.IsInstalled("", nil) {
		t.Error("installed, but no machine said so")
	}

	w.gets(one, "", "has had its token; hint: rm "+w.path)
	for _, name := range strings.Fields(undo)[1:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}

	if w.IsInstalled(one[0], nil) {
		t.Error("still installed")
	}

	w.gets(one, second, "") // installed again, it joins again
}

// TestAFileHasOneToken has a client claim a serial number that has a file, with
// one MAC after the other.
func TestAFileHasOneToken(t *testing.T) {
	w := newFixture(t)
	ask := func(name string, macs []string, want, wantErr string) {
		t.Helper()
		got, err := w.Token(t.Context(), name, macs)
		if got != want || (err != nil) != (wantErr != "") ||
			(err != nil && !strings.Contains(hint.Line(err), wantErr)) {
			t.Errorf("%s, %v: %q, %v", name, macs, got, err)
		}
	}

	ask("serial-S1.yaml", one, first, "")
	ask("serial-S1.yaml", two, first, "")
	w.restart()

	if _, err := w.Installed("serial-S1.yaml", Machine{MACs: two}); err != nil {
		t.Fatal(err)
	}

	ask("serial-S1.yaml", one, "", "has had its token")
	if !w.grants[0].Used {
		t.Error("installed with other MACs than it asked with first, and the token is not spent")
	}

	ask("serial-S2.yaml", []string{"52:54:00:00:00:03"}, second, "")
}

// TestAMACOfSeveralMachines: the network device that a management controller
// shows over USB has the same one in each.
func TestAMACOfSeveralMachines(t *testing.T) {
	const shared = "be:3a:f2:b6:05:9f"
	w := newFixture(t)
	gets := func(name, mac, want string) {
		t.Helper()
		got, err := w.Token(t.Context(), name, []string{mac, shared})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}

	gets("serial-S1.yaml", one[0], first)
	gets("serial-S2.yaml", two[0], second)

	undo, err := w.Installed("serial-S1.yaml", Machine{MACs: []string{one[0], shared}})
	if err != nil {
		t.Fatal(err)
	}

	gets("serial-S2.yaml", two[0], second) // again, as it installs itself
	if _, err := w.Installed("serial-S2.yaml", Machine{MACs: []string{two[0], shared}}); err != nil {
		t.Fatal(err)
	}

	for _, name := range strings.Fields(undo)[1:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}

	if w.IsInstalled(one[0], nil) || !w.IsInstalled(two[0], nil) {
		t.Error("what was taken back is the token of the other")
	}

	if _, err := w.Token(t.Context(), "serial-S1.yaml", []string{one[0], shared}); err == nil ||
		!strings.Contains(err.Error(), "were given") {
		t.Errorf("installed again: %v", err)
	}
}

// TestReportedMACsChangeNothingForTheirMachine has a machine say that it is installed,
// with the MAC of another one that has a token, and that is installed later.
func TestReportedMACsChangeNothingForTheirMachine(t *testing.T) {
	w := newFixture(t)
	const second = "52:54:00:00:00:12"
	two := []string{two[0], second}
	token, err := w.Token(t.Context(), "", two)
	if err != nil {
		t.Fatal(err)
	}
	said := Machine{MACs: []string{one[0], two[0]}, LinkMAC: one[0], UUID: "one"}
	undo, err := w.Installed("", said)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.Token(t.Context(), "", two); again != token || err != nil {
		t.Errorf("token %s, %v, and %s before", again, err, token)
	}
	if !strings.HasSuffix(undo, "/reports/"+two[0]+","+one[0]) {
		t.Errorf("undone by %s", undo)
	}

	if _, err := w.Installed("", Machine{MACs: two, LinkMAC: two[0], UUID: "two"}); err != nil {
		t.Fatal(err)
	}
	undo, err = w.Installed("", said)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(undo, "/"+two[0]+" ") || strings.HasSuffix(undo, "/"+two[0]) {
		t.Errorf("the mark of the other machine is undone by %s", undo)
	}
	if !w.IsInstalled(two[0], nil) {
		t.Error("what another machine says takes the place of what it said itself")
	}
	for uuid, want := range map[string]bool{"one": false, "two": true} {
		if got := w.IsInstalled(second, []string{uuid}); got != want {
			t.Errorf("its second device, with UUID %s, is installed: %t", uuid, got)
		}
	}
}

// TestInventedMACsLeaveRoomForOthers has a client report again and again that
// a machine is installed, with other MACs each time.
func TestInventedMACsLeaveRoomForOthers(t *testing.T) {
	w := newFixture(t)
	var err error
	said := 0
	for ; err == nil && said <= maxMACs; said++ {
		_, err = w.Installed("serial-S1.yaml",
			Machine{MACs: []string{fmt.Sprintf("52:54:00:01:%02x:%02x", said>>8, said&0xff)}})
	}
	if err == nil ||
		!strings.Contains(err.Error(), "256 network devices of installed machines are too many") {
		t.Errorf("%d MACs of one machine: %v", said, err)
	}

	for name, macs := range map[string][]string{"serial-S2.yaml": one, "": two} {
		if _, err := w.Installed(name, Machine{MACs: macs}); err != nil || !w.IsInstalled(macs[0], nil) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestTwoServersWithOneRecord(t *testing.T) {
	w := newFixture(t)
	root, err := os.OpenRoot(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(root, nil, time.Now); err == nil ||
		!strings.Contains(hint.Text(err), "another loamctl serve") {
		t.Errorf("error %v", err)
	}
}

func TestARecordThatCannotBeRead(t *testing.T) {
	w := newFixture(t)
	w.Close()
	if err := os.WriteFile(filepath.Join(w.path, grantsFile), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}

	root, err := os.OpenRoot(w.path)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := Open(root, nil, time.Now); err == nil ||
		!strings.Contains(hint.Text(err), "which tokens were given") {
		t.Errorf("error %v", err)
	}
}

// TestPowerCuts cuts before each step: whoever got a token before the cut has
// it alone after it.
func TestPowerCuts(t *testing.T) {
	errCut := errors.New("cut")
	for cut := range 20 {
		w := newFixture(t)
		steps := 0
		w.dir = durable.New(w.dir.Root(), func(durable.Step) error {
			steps++
			if steps > cut {
				return errCut
			}
			return nil
		})

		got, err := w.Token(t.Context(), "", one)
		if err == nil && got != first {
			t.Fatalf("cut %d: %q", cut, got)
		}

		w.restart()
		other, err := w.Token(t.Context(), "", two)
		if err != nil || (got != "" && other == got) {
			t.Fatalf("cut %d: %q to both, %v", cut, other, err)
		}
	}
}

// TestNothingIsGivenThatIsNotOnDisk asks three times while the disk is full, as
// a node that gets an error does.
func TestNothingIsGivenThatIsNotOnDisk(t *testing.T) {
	w := newFixture(t)
	full := true
	w.dir = durable.New(w.dir.Root(), func(s durable.Step) error {
		if full && strings.HasPrefix(s.Name, grantsFile) {
			return &durable.Fault{Err: unix.ENOSPC}
		}
		return nil
	})

	for range 3 {
		w.gets(one, "", "no space left")
	}

	full = false
	w.gets(two, first, "")
	w.gets(one, second, "")
}

// maker makes tokens in a cluster whose API server is away at first.
type maker struct {
	List
	away      bool
	published []string
	// meanwhile is what others do while the API server makes a token.
	meanwhile func()
}

func (c *maker) Next(given func(string) bool, now time.Time) (string, time.Time, error) {
	token, _, err := c.List.Next(given, now)
	return token, now.Add(time.Hour), err
}

func (c *maker) Good(token string, expires, now time.Time) (bool, error) {
	return Cluster{For: time.Hour}.Good(token, expires, now)
}

func (c *maker) Publish(_ context.Context, token string, _ time.Time) error {
	if c.meanwhile != nil {
		c.meanwhile()
	}
	if c.away {
		return errors.New("no route to host")
	}
	c.published = append(c.published, token)
	return nil
}

func TestATokenThatIsMade(t *testing.T) {
	w := newFixture(t)
	c := &maker{List: w.list, away: true}
	w.source = c
	w.restart()
	w.gets(one, "", "no route to host")
	c.away = false
	w.restart()
	w.gets(one, first, "")
	w.gets(one, first, "")

	if len(c.published) != 1 {
		t.Errorf("published %v", c.published)
	}

	w.now = w.now.Add(29 * time.Minute)
	w.gets(one, first, "")
	w.now = w.now.Add(2 * time.Minute)
	w.gets(one, second, "") // the first could expire before the machine has installed itself
}

func TestNobodyWaitsForTheAPIServer(t *testing.T) {
	w := newFixture(t)
	w.source = &maker{
		List: w.list,
		meanwhile: func() {
			if _, err := w.Installed("", Machine{MACs: two}); err != nil {
				t.Error(err)
			}
		},
	}

	w.restart()
	w.gets(one, first, "")
	w.gets(two, "", "has had its token")
}

func TestListRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, wantErr string }{
		{"an empty file", "# none\n", "has no token"},
		{
			"another kind of token",
			first + "\n" +
				"ABCDEF.0000000000000001\n",
			":2: not a bootstrap token",
		},
		{"one twice", first + "\n" + first + "\n", ":2: the token appears twice"},
	} {
		name := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(name, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := List(name).Tokens()
		if err == nil || !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%s: error %v", test.name, err)
		}
	}
}

// endless makes a token that is good for an hour, and counts them.
type endless struct{ made int }

func (e *endless) Next(_ func(string) bool, now time.Time) (string, time.Time, error) {
	e.made++
	return fmt.Sprintf("aaaaaa.%016d", e.made), now.Add(time.Hour), nil
}

func (*endless) Good(_ string, expires, now time.Time) (bool, error) {
	return now.Before(expires), nil
}

func (*endless) Publish(context.Context, string, time.Time) error { return nil }

// TestInventedMachinesGetNoEndOfTokens: each would be a Secret in the cluster.
// Tokens that expired are not kept for ever.
func TestInventedMachinesGetNoEndOfTokens(t *testing.T) {
	w := newFixture(t)
	source := &endless{}
	w.source = source
	w.restart()

	invented := 0
	flood := func() (refused int) {
		for range 130 {
			invented++
			mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x",
				invented>>16, invented>>8&0xff, invented&0xff)
			if _, err := w.Token(t.Context(), "", []string{mac}); errors.Is(err, errTooMany) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return refused
	}

	if refused := flood(); refused != 130-maxPerHour || source.made != maxPerHour {
		t.Errorf("%d refused, %d made", refused, source.made)
	}

	// A machine with a file of its own is not kept waiting.
	if token, err := w.Token(t.Context(), "node-1.yaml", one); err != nil || token == "" {
		t.Errorf("%q, %v", token, err)
	}

	w.now = w.now.Add(2 * time.Hour)
	if refused := flood(); refused != 130-maxPerHour || len(w.grants) != maxPerHour {
		t.Errorf("later: %d refused, %d grants", refused, len(w.grants))
	}
}
