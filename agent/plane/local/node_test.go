package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/template"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

var built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fixture is a node, and what it finds. The node calls the functions that Config has at
// the time, except for Fetch, so a test may replace them.
type fixture struct {
	*Node
	Config

	logs *observer.ObservedLogs

	// hook is called before each step of a write, unless it is nil.
	hook durable.Hook
}

// newFixture returns a node without anything on its disk.
func newFixture(t *testing.T, settings plane.Settings, first bool) *fixture {
	t.Helper()
	root := files.Root(t)
	core, logs := observer.New(zap.InfoLevel)
	var fetches sync.WaitGroup
	t.Cleanup(fetches.Wait)

	f := &fixture{logs: logs}
	dir := durable.New(root, func(step durable.Step) error {
		if f.hook == nil {
			return nil
		}
		return f.hook(step)
	})
	f.Config = Config{
		Store:     plane.NewStore(dir),
		Root:      root.Name(),
		Image:     files.Root(t),
		Name:      "node-1",
		First:     first,
		Addresses: func() ([]netip.Addr, error) { return nil, nil },
		Go:        fetches.Go,
		Prune:     func(string) error { return nil },
		Current:   func() (string, bool, error) { return "", false, nil },
		Uptime:    func() time.Duration { return time.Hour },
		Built:     built,
		Now:       func() time.Time { return built.AddDate(0, 1, 0) },
		Log:       zap.New(core),
	}
	f.Node = New(plane.NewRecord(settings), f.late())
	return f
}

// late returns the configuration with functions that call what f has when they are
// called.
func (f *fixture) late() Config {
	c := f.Config
	c.Addresses = func() ([]netip.Addr, error) { return f.Addresses() }
	c.Go = func(run func()) { f.Go(run) }
	c.Prune = func(oldest string) error { return f.Prune(oldest) }
	c.NetworkChanges = func(ctx context.Context) (<-chan struct{}, error) {
		return f.NetworkChanges(ctx)
	}
	c.Current = func() (string, bool, error) { return f.Current() }
	c.API = func() (*api.Client, error) { return f.API() }
	c.Uptime = func() time.Duration { return f.Uptime() }
	c.Now = func() time.Time { return f.Now() }
	return c
}

// has gives the node these addresses.
func (f *fixture) has(addresses ...string) {
	var all []netip.Addr
	for _, text := range addresses {
		all = append(all, netip.MustParseAddr(text))
	}
	f.Addresses = func() ([]netip.Addr, error) { return all, nil }
}

// warnings returns the warnings in the log.
func (f *fixture) warnings() *observer.ObservedLogs {
	return f.logs.FilterLevelExact(zap.WarnLevel)
}

// newNode returns a node with a record, keys, a bundle and these addresses.
func newNode(t *testing.T, settings plane.Settings, addresses ...string) *fixture {
	t.Helper()
	n := newFixture(t, settings, false)
	n.has(addresses...)

	r, err := n.Store.Init(plane.NewRecord(settings), n.certificates.times())
	if err != nil {
		t.Fatal(err)
	}
	writeBundle(t, filepath.Join(n.Root, bundle.Directory, r.Kubernetes), r.Kubernetes)
	return n
}

// writeBundle makes a bundle in which programs are empty, except etcd 3.7.3, which
// prints its version.
func writeBundle(t *testing.T, dir, version string) {
	t.Helper()
	d := bundle.Description{Format: bundle.Format, Version: version, Arch: runtime.GOARCH}
	for _, name := range bundle.Programs {
		text := ""
		if name == "etcd" {
			text = "#!/bin/sh\necho etcd Version: 3.7.3\n"
		}
		files.Write(t, filepath.Join(dir, "bin", name), text)
		if err := os.Chmod(filepath.Join(dir, "bin", name), 0o755); err != nil {
			t.Fatal(err)
		}
		d.Files = append(d.Files, bundle.File{Name: "bin/" + name, Size: int64(len(text))})
	}

	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(dir, "bundle.json"), string(text))
	files.Write(t, filepath.Join(dir, "images/index.json"), `{"manifests": [
		{"digest": "sha256:c0c0",
		 "annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/coredns:v1"}},
		{"digest": "sha256:aaaa",
		 "annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/pause:3.10.1"}}]}`)
}

func (n *fixture) decode(t *testing.T) (config.Desired, error) {
	t.Helper()
	doc, err := n.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n.Decode(t.Context(), doc)
}

// settled is decode after the fetch that this begins, if any.
func (n *fixture) settled(t *testing.T) (config.Desired, error) {
	t.Helper()
	_, _ = n.decode(t)
	for n.isFetching() {
		<-n.again
	}
	return n.decode(t)
}

func (n *fixture) isFetching() bool {
	n.bundles.mu.Lock()
	defer n.bundles.mu.Unlock()
	return n.bundles.last.running
}

// textOf returns the text of a file or a unit.
func textOf(t *testing.T, d config.Desired, name string) string {
	t.Helper()
	for _, f := range d.Files {
		if f.Path == name {
			in, err := f.Content.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	for _, u := range d.Units {
		if u.Name == name && u.Content != nil {
			return *u.Content
		}
	}
	return ""
}

// TestTheBundleIsFetched: a node without the programs of its record asks for them,
// and says why they do not come.
func TestTheBundleIsFetched(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	dir := filepath.Join(n.Root, bundle.Directory)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}

	unplugged := errors.New("unplugged")
	n.bundles.fetch = func(context.Context, string, func(int64, int64)) error { return unplugged }
	if _, err := n.settled(t); !errors.Is(err, unplugged) {
		t.Errorf("without a repository that answers: %v", err)
	}

	n.bundles.fetch = func(_ context.Context, version string, _ func(int64, int64)) error {
		writeBundle(t, filepath.Join(dir, version), version)
		return nil
	}
	n.Uptime = func() time.Duration { return time.Hour + minPause }
	if _, err := n.settled(t); err != nil {
		t.Error(err)
	}
}

// TestAFetchThatFailsPauses: the agent asks every 5 s, and the repository is asked
// less and less often, at least once a minute.
func TestAFetchThatFailsPauses(t *testing.T) {
	var now time.Duration
	var asked []time.Duration
	fails := errors.New("damaged")
	n := newNode(t, plane.Settings{})
	n.Uptime = func() time.Duration { return now }
	n.bundles.fetch = func(context.Context, string, func(int64, int64)) error {
		asked = append(asked, now/time.Second)
		return fails
	}
	var running sync.WaitGroup
	n.Go = running.Go
	checkFails := func(r plane.Record) {
		t.Helper()
		err := n.bundles.require(t.Context(), r, r.Kubernetes)
		if !errors.Is(err, fails) && !errors.Is(err, source.ErrFetching) {
			t.Errorf("after %s: %v", now, err)
		}
		running.Wait()
		if err := n.bundles.require(t.Context(), r, r.Kubernetes); !errors.Is(err, fails) {
			t.Errorf("after %s, in the end: %v", now, err)
		}
	}

	r := n.record
	r.Kubernetes = "1.37.3"
	for ; now < 200*time.Second; now += 5 * time.Second {
		checkFails(r)
	}
	r.Kubernetes = "1.36.4"
	checkFails(r)
	if want := []time.Duration{0, 5, 15, 35, 75, 135, 195, 200}; !slices.Equal(asked, want) {
		t.Errorf("asked after seconds %d, want %d", asked, want)
	}
}

// TestAFailureCountsUntilTheNextFetchGetsFurther: a repository that is away is asked
// each minute, and the status says all the time that it is away.
func TestAFailureCountsUntilTheNextFetchGetsFurther(t *testing.T) {
	const size = 400_000_000
	for _, row := range []struct {
		name         string
		before, next int64
		fails        bool
	}{
		{"a repository that does not answer", -1, -1, true},
		{"a repository that answers", -1, 0, false},
		{"a part that is damaged", 200_000_000, 200_000_000, true},
		{"a part that was repaired", 200_000_000, 250_000_000, false},
	} {
		failed := errors.New("failed")
		var d *download
		for _, done := range []int64{row.before, row.next} {
			last := d
			if last == nil {
				last = &download{}
			}
			d = last.next("1.37.3")
			if done >= 0 {
				d.advance(0, size)
				d.advance(done, size)
			}
			if last.err == nil {
				d.end(failed, time.Hour)
			}
		}
		problem := d.problem()
		if errors.Is(problem, failed) != row.fails ||
			errors.Is(problem, source.ErrFetching) == row.fails {
			t.Errorf("%s: %v", row.name, problem)
		}
	}
}

// TestWhatIsSaidOfAFetch: how far it is, how large the bundle is, and why it does
// not come.
func TestWhatIsSaidOfAFetch(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(n.Root, bundle.Directory)); err != nil {
		t.Fatal(err)
	}
	saysOf := func(when, want string) {
		t.Helper()
		_, err := n.bundles.open(r)
		if err == nil || err.Error() != "cluster kubernetes: "+want || hint.Of(err) != "" {
			t.Errorf("%s: %v, hint %q\nwant %s", when, err, hint.Of(err), want)
		}
	}

	unplugged := errors.New("unplugged")
	n.bundles.fetch = func(_ context.Context, _ string, progress func(done, all int64)) error {
		saysOf("before the repository answers", "version 1.37.2 of Kubernetes is being fetched")
		progress(0, 429_000_000)
		saysOf("at first", "version 1.37.2 of Kubernetes is being fetched: 0 % of 429 MB")
		<-n.Changed()
		for done := range int64(200) {
			progress(done*1_000_000, 429_000_000)
		}
		const want = "version 1.37.2 of Kubernetes is being fetched: 40 % of 429 MB"
		saysOf("later", want)
		if state := n.State(); state.Problem != want || state.Ready {
			t.Errorf("the state is %+v", state)
		}
		return unplugged
	}
	saysOf("before it begins", "this node has no bundle of Kubernetes 1.37.2")
	if _, err := n.settled(t); !errors.Is(err, unplugged) {
		t.Errorf("the fetch ended with %v", err)
	}

	saysOf("after it has failed", "unplugged")
	if state := n.State(); state.Problem != "" {
		t.Errorf("at last the state is %+v", state)
	}
	if lines := n.logs.FilterMessage("fetch the bundle of Kubernetes").Len(); lines != 5 {
		t.Errorf("%d lines of log, want one for each tenth", lines)
	}
}

// TestABundleThatIsNotWhole says which file is not there, in place of that there is no
// bundle, which would have the operator put it where it is.
func TestABundleThatIsNotWhole(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	kubelet := filepath.Join(n.Root, bundle.Directory, n.record.Kubernetes, "bin/kubelet")
	if err := os.Remove(kubelet); err != nil {
		t.Fatal(err)
	}
	_, err := n.decode(t)
	if fault.Of(err) != fault.StateDamaged || !strings.Contains(err.Error(), kubelet) {
		t.Errorf("got %v", err)
	}
}

// TestAFetchRunsBesideDecode, which may take hours, and ends when the record names
// another version. One fetch begins when the other has ended.
func TestAFetchRunsBesideDecode(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	began, ended := make(chan string), make(chan string)
	n.bundles.fetch = func(ctx context.Context, version string, _ func(int64, int64)) error {
		began <- version
		<-ctx.Done()
		ended <- version
		return ctx.Err()
	}
	names := func(version string) {
		t.Helper()
		r := n.record
		r.Kubernetes = version
		if err := n.Store.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	fetches := func(when, version string) {
		t.Helper()
		_, err := n.decode(t)
		want := "cluster kubernetes: version " + version + " of Kubernetes is being fetched"
		if !errors.Is(err, source.ErrFetching) || err.Error() != want {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
	next := func(events <-chan string, want string) {
		t.Helper()
		if got := <-events; got != want {
			t.Errorf("the fetch of %s, want %s", got, want)
		}
	}

	names("1.37.3")
	fetches("at first", "1.37.3")
	next(began, "1.37.3")
	fetches("then", "1.37.3")

	names("1.37.4")
	fetches("with another version", "1.37.4")
	next(ended, "1.37.3")
	next(began, "1.37.4")
	fetches("in its turn", "1.37.4")
	r := n.record
	r.Kubernetes = "1.37.4"
	_, err := n.bundles.open(r)
	n.cluster.reportProblem(&progress{}, err)
	if state := n.State(); state.Problem != "version 1.37.4 of Kubernetes is being fetched" {
		t.Errorf("the state is %+v", state)
	}

	names(n.record.Kubernetes)
	if _, err := n.decode(t); err != nil {
		t.Errorf("the version that is there: %v", err)
	}
	next(ended, "1.37.4")
	if state := n.State(); state.Problem != "" {
		t.Errorf("in the end the state is %+v", state)
	}
	if n.warnings().Len() > 0 {
		t.Errorf("the log has %+v", n.warnings().All())
	}
}

// TestAFetchEndsWithTheAgent, and makes nothing.
func TestAFetchEndsWithTheAgent(t *testing.T) {
	n := newFirst(t, &site{addresses: []string{"192.0.2.10"}})
	n.bundles.fetch = func(ctx context.Context, _ string, _ func(int64, int64)) error {
		<-ctx.Done()
		return ctx.Err()
	}
	var running sync.WaitGroup
	n.Go = running.Go
	doc, err := n.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := n.Decode(ctx, doc); !errors.Is(err, source.ErrFetching) {
		t.Errorf("while it runs: %v", err)
	}
	cancel()
	running.Wait()
	n.hasNothing(t)
}

func TestDecode(t *testing.T) {
	n := newNode(t, plane.Settings{}, "127.0.0.1", "fe80::1", "10.244.0.1", "192.0.2.10", "192.0.2.11")
	d, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}

	for name, parts := range map[string][]string{
		"etcd.service": {
			"After=loam-agent.service", "ExecStart=/var/lib/loam/kubernetes/1.37.2/bin/etcd",
		},
		"kube-apiserver.service": {"--advertise-address=192.0.2.10"},
		"kubelet.service":        {"--node-ip=192.0.2.10", "--hostname-override=node-1"},
		"kubernetes-images.service": {
			" name==registry.k8s.io/pause:3.10.1,target.digest==sha256:aaaa ",
			"grep --quiet --line-regexp 2 ||",
			"tar --create --directory=/var/lib/loam/kubernetes/1.37.2/images .",
		},
		"/etc/containerd/config.toml": {
			"registry.k8s.io/pause:3.10.1", "/etc/containerd/pods.conflist.template",
			"SystemdCgroup = true", "/usr/lib/cni",
		},
	} {
		for _, part := range parts {
			if !strings.Contains(textOf(t, d, name), part) {
				t.Errorf("%s has no %s:\n%s", name, part, textOf(t, d, name))
			}
		}
	}

	again, err := n.decode(t)
	if err != nil || again.Digest() != d.Digest() {
		t.Errorf("the same record gives %s, then %s, %v", d.Digest(), again.Digest(), err)
	}
}

// TestPodNetwork fills in the template as containerd does.
func TestPodNetwork(t *testing.T) {
	var text strings.Builder
	err := template.Must(template.New("").Parse(podNetwork())).Execute(&text, map[string]any{
		"PodCIDRRanges": []string{"10.244.0.0/24", "fd00:1::/64"},
		"Routes":        []string{"0.0.0.0/0", "::/0"},
	})
	if err != nil {
		t.Fatal(err)
	}

	var network struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet string }
				Routes []struct{ Dst string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &network); err != nil {
		t.Fatalf("%v:\n%s", err, text.String())
	}
	ipam := network.Plugins[0].IPAM
	if len(ipam.Ranges) != 2 || ipam.Ranges[1][0].Subnet != "fd00:1::/64" ||
		len(ipam.Routes) != 2 || ipam.Routes[1].Dst != "::/0" {
		t.Errorf("network %+v", network)
	}
}

func TestANetworkOfTheOperator(t *testing.T) {
	n := newNode(t, plane.Settings{Network: plane.NetworkNone}, "192.0.2.10")
	d, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(textOf(t, d, "/etc/containerd/config.toml"), "template") ||
		textOf(t, d, cniTemplate) != "" {
		t.Error("the node makes a network")
	}
}

func TestWhatTheNodeWaitsFor(t *testing.T) {
	n := newNode(t, plane.Settings{}, "fd00::1")
	_, err := n.decode(t)
	if err == nil || !strings.Contains(err.Error(), "has no address that fits") || hint.Of(err) == "" {
		t.Errorf("without an address: %v", err)
	}

	n = newNode(t, plane.Settings{}, "192.0.2.10")
	if err := os.RemoveAll(filepath.Join(n.Root, bundle.Directory, "1.37.2")); err != nil {
		t.Fatal(err)
	}
	_, err = n.decode(t)
	if err == nil || !strings.Contains(err.Error(), "has no bundle of Kubernetes 1.37.2") ||
		!strings.HasSuffix(hint.Of(err), "put the bundle into /var/lib/loam/kubernetes/1.37.2") {
		t.Errorf("without a bundle: %v", err)
	}
}

// TestRenew: at a start, certificates are issued with neither network nor bundle.
func TestRenew(t *testing.T) {
	n := newNode(t, plane.Settings{})
	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Renew(r); err != nil {
		t.Fatal(err)
	}
	before := n.serial(t, r)

	n.Now = func() time.Time { return built.AddDate(5, 0, 0) }
	if err := n.Renew(r); err != nil {
		t.Fatal(err)
	}
	if after := n.serial(t, r); after == before {
		t.Error("after five years there is the same certificate")
	}
}

func (n *fixture) serial(t *testing.T, r plane.Record) string {
	t.Helper()
	cert := n.Store.Keys.Certificates(pki.Leaves(r.Names(n.Name)))[pki.Kubelet]
	if cert == nil {
		t.Fatal("there is no certificate")
	}
	return cert.SerialNumber.String()
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record, network, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
		changes := make(chan struct{}, 1)
		go func() {
			defer close(changes)
			merge(changes, record, network, again)
		}()

		record <- struct{}{}
		<-changes
		network <- struct{}{}
		<-changes
		again <- struct{}{}
		<-changes
		began := time.Now()
		<-changes
		if waited := time.Since(began); waited != checkInterval {
			t.Errorf("a look after %s", waited)
		}

		close(network)
		<-changes
		if _, open := <-changes; open {
			t.Error("the watch goes on without the network")
		}
	})
}

func TestTheRecordIsWatched(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	n.NetworkChanges = func(context.Context) (<-chan struct{}, error) {
		return make(chan struct{}), nil
	}
	changes, err := n.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	r.Audit.Policy = plane.AuditMetadata
	if err := n.Store.WriteRecord(r); err != nil {
		t.Fatal(err)
	}
	<-changes
}

// TestPreview: a plan of another record has its changes, and issues nothing.
func TestPreview(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	before, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	serial := n.serial(t, r)

	r.Audit.Policy = plane.AuditMetadata
	n.Now = func() time.Time { return built.AddDate(5, 0, 0) }
	after, err := n.Preview(r)
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for i, u := range after.Units {
		if *cmp.Or(u.Content, new("")) != *cmp.Or(before.Units[i].Content, new("")) {
			changed = append(changed, u.Name)
		}
	}
	if !slices.Equal(changed, []string{"kube-apiserver.service"}) || n.serial(t, r) != serial {
		t.Errorf("changed %v, certificate %s, then %s", changed, serial, n.serial(t, r))
	}
}

func TestTheAddressStays(t *testing.T) {
	uptime := time.Hour
	n := newNode(t, plane.Settings{})
	n.Uptime = func() time.Duration { return uptime }

	for _, row := range []struct {
		name    string
		present []string
		uptime  time.Duration
		want    string
	}{
		{"the best one at first", []string{"192.0.2.10", "192.0.2.11"}, time.Hour, "192.0.2.10"},
		{"the same when another is better", []string{"192.0.2.11", "192.0.2.10"}, 0, "192.0.2.10"},
		{"none while the machine starts without it", []string{"192.0.2.11"}, time.Second, ""},
		{"another when it is gone", []string{"192.0.2.11"}, time.Hour, "192.0.2.11"},
		{"that one from then on", []string{"192.0.2.10", "192.0.2.11"}, time.Hour, "192.0.2.11"},
	} {
		n.has(row.present...)
		uptime = row.uptime
		d, err := n.decode(t)
		unit := textOf(t, d, "kube-apiserver.service")
		if (err != nil) != (row.want == "") ||
			!strings.Contains(unit, "--advertise-address="+row.want+" ") && row.want != "" {
			t.Errorf("%s: %v\n%s", row.name, err, unit)
		}
	}
}
