package fakesystemd_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/fakesystemd"
)

const (
	service = "org.freedesktop.systemd1"
	root    = dbus.ObjectPath("/org/freedesktop/systemd1")
	name    = "judged.service"
)

// TestItAnswersAsTheImagesSystemd asks both for the same and compares what they
// answer and tell.
func TestItAnswersAsTheImagesSystemd(t *testing.T) { container.Run(t, judge) }

func judge(t *testing.T, c *container.Container) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "private")
	for _, tree := range []string{dir, c.Root} {
		units := filepath.Join(tree, "etc/systemd/system")
		text := "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

		wants := filepath.Join(units, "multi-user.target.wants")
		if err := os.MkdirAll(wants, 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(units, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../"+name, filepath.Join(wants, name)); err != nil {
			t.Fatal(err)
		}
	}

	tree, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()

	listener, err := net.Listen("unix", fake)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- fakesystemd.New(tree, 5*time.Millisecond).Serve(ctx, listener) }()

	real := ask(t, c.Socket)
	made := ask(t, fake)
	for what, want := range real {
		if diff := cmp.Diff(want, made[what]); diff != "" {
			t.Errorf("%s (-systemd +fake):\n%s", what, diff)
		}
	}

	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// peer is a connection to a systemd, and the signals received about one unit.
type peer struct {
	testing.TB
	*dbus.Conn

	mu   sync.Mutex
	told []string
	over chan struct{}
}

// DeliverSignal implements dbus.SignalHandler: it keeps the signals about the
// unit, and drops states that repeat the previous one.
func (p *peer) DeliverSignal(_, member string, s *dbus.Signal) {
	text := ""
	switch {
	case member == "PropertiesChanged" &&
		path.Base(string(s.Path)) == strings.ReplaceAll(name, ".", "_2e"):
		values := s.Body[1].(map[string]dbus.Variant)
		if s.Body[0] == service+".Unit" {
			text = fmt.Sprintf("%v/%v", values["ActiveState"].Value(), values["SubState"].Value())
		}
	case member == "JobNew" && s.Body[2] == name:
		text = member
	case member == "JobRemoved" && s.Body[2] == name:
		text = fmt.Sprint(member, " ", s.Body[3])
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if text != "" && (len(p.told) == 0 || p.told[len(p.told)-1] != text) {
		p.told = append(p.told, text)
	}
	if strings.HasPrefix(text, "JobRemoved") {
		p.over <- struct{}{}
	}
}

// signals returns the signals received since the last call.
func (p *peer) signals() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

// ask returns all answers that are compared, by request.
func ask(t *testing.T, socket string) map[string]any {
	t.Helper()
	p := &peer{TB: t, over: make(chan struct{}, 16)}
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(socket),
		dbus.WithSignalHandler(p))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal("0")}); err != nil {
		t.Fatal(err)
	}

	p.Conn = conn

	// A message that comes with the end of the authentication waits for the
	// next.
	for range 2 {
		conn.Object(service, root).Go("org.freedesktop.DBus.Peer.Ping",
			dbus.FlagNoReplyExpected, nil)
		time.Sleep(50 * time.Millisecond)
	}

	found := map[string]any{}
	p.call("Reload")

	for _, step := range []struct{ what, method string }{
		{"start", "StartUnit"}, {"start again", "StartUnit"}, {"restart", "RestartUnit"},
		{"stop", "StopUnit"}, {"restart what is down", "RestartUnit"},
	} {
		p.signals()
		if err := p.call(step.method, name, "replace").Err; err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}

		<-p.over

		// Signals after the end of the job come before this reply.
		p.call("GetUnit", "basic.target")
		found[step.what] = p.signals()
	}

	found["listed"] = p.listed(name, "absent.service")
	found["properties"] = p.properties()

	for _, call := range []struct {
		method string
		args   []any
	}{
		{"StartUnit", []any{"absent.service", "replace"}},
		{"StopUnit", []any{"absent.service", "replace"}},
		{"GetUnit", []any{"absent.service"}},
		{"ResetFailedUnit", []any{"absent.service"}},
		{"ResetFailedUnit", []any{name}},
		{"GetUnit", []any{name}},
		{"DisableUnitFiles", []any{[]string{name}, false}},
		{"EnableUnitFiles", []any{[]string{name}, false, true}},
	} {
		found[fmt.Sprint(call.method, call.args)] = answer(p.call(call.method, call.args...))
	}

	return found
}

func (p *peer) call(method string, args ...any) *dbus.Call {
	return p.Object(service, root).Call(service+".Manager."+method, 0, args...)
}

// answer is a body or an error.
func answer(call *dbus.Call) string {
	if failed, ok := call.Err.(dbus.Error); ok {
		return failed.Name + ": " + failed.Error()
	}
	return fmt.Sprint(call.Body, call.Err)
}

// listed is a listing of units without their descriptions.
func (p *peer) listed(names ...string) [][]any {
	p.Helper()
	var all [][]any
	if err := p.call("ListUnitsByNames", names).Store(&all); err != nil {
		p.Fatal(err)
	}

	for _, u := range all {
		u[1] = ""
	}

	return all
}

// properties are the names of the unit's properties and their types.
func (p *peer) properties() []string {
	p.Helper()
	var all map[string]dbus.Variant
	object := p.Object(service, root+"/unit/"+dbus.ObjectPath(strings.ReplaceAll(name, ".", "_2e")))
	if err := object.Call("org.freedesktop.DBus.Properties.GetAll", 0, "").Store(&all); err != nil {
		p.Fatal(err)
	}

	var found []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		found = append(found, key+" "+all[key].Signature().String())
	}

	return found
}
