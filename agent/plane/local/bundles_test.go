package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

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

// TestProgressOfAFetchIsReported: how far it is, how large the bundle is, and why
// it does not come.
func TestProgressOfAFetchIsReported(t *testing.T) {
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
