package plane

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint"
)

const (
	// smallQuota is reached after some dozens of values, which are large, and
	// below the limit of a request, 1.5 MiB.
	smallQuota = 16 << 20
	valueSize  = 256 << 10
)

// TestEtcdWritesAgain fills etcd until it refuses writes, and deletes what was
// written: the node makes it write again.
func TestEtcdWritesAgain(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	e.fill(t)
	e.deleteAll(t)

	e.maintenance.Look(t.Context())
	if err := e.put(t.Context()); err != nil {
		t.Errorf("%v, after %q", err, e.reported)
	}
	s := e.observe(t)
	if s.Size > smallQuota/4 || !works(s.Condition()) || len(s.Alarms) > 0 {
		t.Errorf("%s: %s, alarms %v", s, s.Condition(), s.Alarms)
	}
	if s.Quota != smallQuota || s.Members != 1 || s.Recent == 0 || s.FsyncP99 <= 0 {
		t.Errorf("observed %+v", s)
	}
	t.Logf("%s, %q", s, e.reported)
}

// TestEtcdFullOfData: nothing is deleted, so the alarm stays, and an operator is
// told what to do. When he has done it, etcd writes again.
func TestEtcdFullOfData(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)

	// As long as some of the file is not data, the node makes room.
	for range 10 {
		e.fill(t)
		e.later(time.Hour)
		e.maintenance.Look(t.Context())
		if e.last.Condition == etcd.Full {
			break
		}
	}

	const says = "etcd is full of data and refuses writes (NOSPACE)"
	if e.last.Err == nil || !strings.Contains(e.last.Err.Error(), says) ||
		!strings.Contains(hint.Of(e.last.Err), "delete ConfigMaps, Secrets or Events") {
		t.Fatalf("it says %v, hint %s; after %q", e.last.Err, hint.Of(e.last.Err), e.reported)
	}

	before := len(e.reported)
	for range 3 {
		e.later(time.Hour)
		e.maintenance.Look(t.Context())
	}
	if err := e.put(t.Context()); err == nil || !isFull(err) {
		t.Errorf("a write to a full etcd: %v", err)
	}
	if s := e.observe(t); len(s.Alarms) != 1 || s.Alarms[0].Kind != etcd.NoSpace {
		t.Errorf("alarms %v", s.Alarms)
	}
	if more := e.reported[before:]; len(more) > 0 {
		t.Errorf("it goes on to say %q", more)
	}

	e.deleteAll(t)
	e.later(5 * time.Minute)
	e.maintenance.Look(t.Context())
	if err := e.put(t.Context()); err != nil {
		t.Errorf("%v, after %q", err, e.reported)
	}
}

// TestEtcdAcceptsDeletesOfTheAPIServer while it is full, as the hint says.
func TestEtcdAcceptsDeletesOfTheAPIServer(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	m := e.machine
	m.newAdmin(t, pki.Times{Built: built, Now: m.now()})
	m.startAPIServer(t)

	create := func(name string) error {
		_, err := m.do(t.Context(), http.MethodPost, configMaps,
			fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":%q}}`, name,
				strings.Repeat("x", 2*valueSize)))
		return err
	}
	var names []string
	for {
		name := fmt.Sprintf("fill-%d", len(names))
		if err := create(name); err != nil {
			if !isFull(err) {
				t.Fatal(err)
			}
			break
		}
		names = append(names, name)
	}

	for _, name := range names {
		m.must(t, http.MethodDelete, configMaps+"/"+name, "")
	}
	e.maintenance.Look(t.Context())
	if err := create("after"); err != nil {
		t.Errorf("%v, after %q", err, e.reported)
	}
}

// TestEtcdKilledWhileItIsDefragmented comes back with its data and its alarm, and
// the node goes on.
func TestEtcdKilledWhileItIsDefragmented(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	e.fill(t)
	e.deleteSome(t)
	kept := e.count(t)

	e.kills = true
	e.maintenance.Look(t.Context())
	e.kills = false
	t.Logf("%q", e.reported)
	e.maintenance.Look(t.Context()) // It is away.

	e.machine.startEtcd(t)
	e.later(5 * time.Minute)
	e.maintenance.Look(t.Context())
	if !works(e.last.Condition) {
		t.Errorf("%s: %v, after %q", e.last.Condition, e.last.Err, e.reported)
	}
	if err := e.put(t.Context()); err != nil {
		t.Errorf("%v, after %q", err, e.reported)
	}
	if now := e.count(t); now != kept+1 {
		t.Errorf("%d values, and then %d", kept, now)
	}
	if left := e.temporary(t); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestEtcdIsLookedAt by Run, which begins at once.
func TestEtcdIsLookedAt(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	ctx, cancel := context.WithCancel(t.Context())
	e.onReport = cancel
	e.maintenance.Run(ctx)
	if !works(e.last.Condition) {
		t.Errorf("%s: %v", e.last.Condition, e.last.Err)
	}
}

// works reports whether etcd works. The disk of a host that tests share may be
// slow.
func works(c etcd.Condition) bool { return c == etcd.Well || c == etcd.Slow }

// etcdFixture is the etcd of a machine with a small quota, and the node that looks
// at it.
type etcdFixture struct {
	machine     *machine
	client      etcd.Client
	maintenance etcd.Maintenance

	now      time.Time
	reported []string
	last     etcd.Event
	onReport func()

	// kills is whether the next defragmentation is interrupted.
	kills   bool
	written int
}

func newEtcd(t *testing.T) *etcdFixture {
	t.Helper()
	e := &etcdFixture{machine: newCluster(t), now: built}
	e.machine.node.FsyncP99 = disk.SlowFsync // The disk of the host may be.
	e.machine.startEtcd(t)

	client, transport := e.machine.etcdClient(t)
	client.HTTP.Transport = killer{e, transport}
	client.Measured = e.machine.node.FsyncP99
	e.client = client
	t.Cleanup(transport.CloseIdleConnections)
	e.maintenance = etcd.Maintenance{
		Connect: func() (etcd.Client, error) { return e.client, nil },
		Now:     func() time.Time { return e.now },
		Report:  e.report,
	}
	return e
}

func (e *etcdFixture) report(event etcd.Event) {
	e.last = event
	text := string(event.Condition)
	if event.Step.Action != etcd.Nothing {
		text += ": " + string(event.Step.Action)
	}
	if event.Err != nil {
		text += ": " + hint.Line(event.Err)
	}
	e.reported = append(e.reported, text)
	if e.onReport != nil {
		e.onReport()
	}
}

// startEtcd starts etcd as a node does, but with a small quota.
func (m *machine) startEtcd(t *testing.T) {
	t.Helper()
	m.renew(t)
	desired := plane.Render(m.record, m.node)
	for i, unit := range desired.Units {
		if unit.Name != "etcd.service" {
			continue
		}
		text := strings.Replace(*unit.Content, fmt.Sprintf("--quota-backend-bytes=%d", 2<<30),
			fmt.Sprintf("--quota-backend-bytes=%d", smallQuota), 1)
		if text == *unit.Content {
			t.Fatalf("etcd has another quota:\n%s", text)
		}
		desired.Units[i].Content = &text
	}
	m.start(t, desired, "etcd.service")
}

// etcdClient is the client of a node, which finds its keys in m and etcd in the
// network of m.
func (m *machine) etcdClient(t *testing.T) (etcd.Client, *http.Transport) {
	t.Helper()
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(plane.StateDirectory[1:], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := root.Symlink("../../../../keys", plane.KeysDirectory[1:]); err != nil {
		t.Fatal(err)
	}

	client, err := local.EtcdClient(plane.NewStore(durable.New(root, nil)))
	if err != nil {
		t.Fatal(err)
	}
	transport := client.HTTP.Transport.(*http.Transport)
	transport.DialContext = m.net.dial
	return client, transport
}

// killer kills etcd as soon as it has begun to defragment, if the fixture says so.
type killer struct {
	fixture *etcdFixture
	http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (k killer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !k.fixture.kills || !strings.HasSuffix(r.URL.Path, "/defragment") {
		return k.RoundTripper.RoundTrip(r)
	}

	answered := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		k.fixture.awaitTemporary(answered)
		k.fixture.machine.kill("etcd.service")
	}()
	response, err := k.RoundTripper.RoundTrip(r)
	close(answered)
	<-killed
	return response, err
}

// awaitTemporary waits until there is a second file of the database, or until
// etcd has been faster.
func (e *etcdFixture) awaitTemporary(answered <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond / 4)
	defer tick.Stop()
	for {
		if found, err := filepath.Glob(e.pattern()); err != nil || len(found) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-answered:
			return
		}
	}
}

// pattern matches the files to which etcd defragments.
func (e *etcdFixture) pattern() string {
	return filepath.Join(e.machine.dir, "state", "member", "snap", "db.tmp.*")
}

func (e *etcdFixture) temporary(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(e.pattern())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (e *etcdFixture) later(d time.Duration) { e.now = e.now.Add(d) }

func (e *etcdFixture) observe(t *testing.T) etcd.State {
	t.Helper()
	s, err := e.client.Observe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fill writes until etcd has no space.
func (e *etcdFixture) fill(t *testing.T) {
	t.Helper()
	for range 2 * smallQuota / valueSize {
		err := e.put(t.Context())
		switch {
		case err == nil:
		case isFull(err):
			return
		default:
			t.Fatal(err)
		}
	}
	t.Fatalf("%d values fit into %d bytes", e.written, smallQuota)
}

func isFull(err error) bool { return strings.Contains(err.Error(), "database space exceeded") }

// put writes the next value.
func (e *etcdFixture) put(ctx context.Context) error {
	value := make([]byte, valueSize)
	if _, err := rand.Read(value); err != nil {
		return err
	}
	key := fmt.Appendf(nil, "key-%04d", e.written)
	e.written++
	return e.call(ctx, "kv/put", map[string]any{"key": key, "value": value}, nil)
}

// deleteAll deletes all values, deleteSome two of three.
func (e *etcdFixture) deleteAll(t *testing.T) {
	t.Helper()
	e.deleteBefore(t, e.written)
}

func (e *etcdFixture) deleteSome(t *testing.T) {
	t.Helper()
	e.deleteBefore(t, e.written*2/3)
}

func (e *etcdFixture) deleteBefore(t *testing.T, n int) {
	t.Helper()
	err := e.call(t.Context(), "kv/deleterange", map[string]any{
		"key":       []byte("key-"),
		"range_end": fmt.Appendf(nil, "key-%04d", n),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// count returns the number of values.
func (e *etcdFixture) count(t *testing.T) int {
	t.Helper()
	var answer struct {
		Count int `json:"count,string"`
	}
	err := e.call(t.Context(), "kv/range", map[string]any{
		"key":        []byte("key-"),
		"range_end":  []byte("key."),
		"count_only": true,
	}, &answer)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Count
}

// call is a client of etcd's gateway that shares nothing with the one under test.
func (e *etcdFixture) call(ctx context.Context, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	url := plane.EtcdURL + "/v3/" + method
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := e.client.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(string(text))
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
