package upgrade_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/service"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/gpt"
)

// TestGoingBackEndsATrial has an operator not wait for the verdict.
func TestGoingBackEndsATrial(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	rebooted := make(chan struct{})
	done := make(chan struct{})
	s := service.New(&service.Service{
		Upgrader: c.u,
		Machine:  machine{func() { close(rebooted) }},
		Trial:    &upgrade.Trial{Limit: time.Hour},
		Log:      zap.NewNop(),
	})

	go func() {
		defer close(done)
		s.Run(ctx)
	}()

	for _, plan := range []bool{true, false} {
		version, err := s.Handle(ctx, service.Request{Rollback: true, Plan: plan})
		if err != nil || version != "1.0.0" {
			t.Errorf("back to %q: %v", version, err)
		}
	}

	state := s.State()
	if state.Phase != "trial" || time.Duration(state.Deadline) != time.Hour || state.Other != "1.0.0" {
		t.Errorf("state %+v", state)
	}

	<-rebooted
	cancel()
	<-done
	c.boot()

	if c.running.Version != "1.0.0" {
		t.Fatalf("%s runs", c.running.Version)
	}

	c.run(upgrade.Verdict{})
	c.remembers("2.0.0")

	if failed, _ := upgrade.Failures(c.recorder); failed[0].Reason != "an operator has gone back" {
		t.Errorf("remembers %v", failed)
	}
}

// TestArmedUpgradesCanBeRequestedAgain has a downgrade and a way back wait, and
// then not.
func TestArmedUpgradesCanBeRequestedAgain(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})

	down := c.releases[0].index
	if err := c.u.Begin(down, upgrade.Options{Downgrade: true}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}

	c.run(upgrade.Verdict{})
	if err := c.u.Begin(down, upgrade.Options{Downgrade: true, AtOnce: true},
		upgrade.Facts{}); err != nil {
		t.Errorf("a downgrade, once more and at once: %v", err)
	}

	if j, err := upgrade.ReadJournal(c.recorder); err != nil || !j.AtOnce ||
		j.Phase != upgrade.Armed {
		t.Errorf("journal %+v, %v", j, err)
	}

	if err := c.u.Begin(c.releases[2].index, upgrade.Options{}, upgrade.Facts{}); err == nil {
		t.Error("another one is taken while that is armed")
	}

	c.boot()
	c.run(upgrade.Verdict{Word: upgrade.Good})

	for range 2 {
		if _, err := c.u.Rollback(upgrade.Options{Stay: true}, false); err != nil {
			t.Errorf("back, and once more: %v", err)
		}
		c.run(upgrade.Verdict{})
	}
}

// TestAskedForAgainItComesFromTheOtherPlace has an upgrade stop, and go on by
// another index.
func TestAskedForAgainItComesFromTheOtherPlace(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	two := c.releases[1].index
	elsewhere := two
	elsewhere.Pack.Size++

	if err := c.u.Begin(elsewhere, upgrade.Options{Ref: "there"}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}

	if _, err := c.u.Run(t.Context(), upgrade.Verdict{}, packOnly(noPack{})); !errors.Is(err,
		fill.ErrUnreachable) {
		t.Fatal(err)
	}

	two.Epoch = 3
	if err := c.u.Begin(two, upgrade.Options{Ref: "here"}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}

	j, err := upgrade.ReadJournal(c.recorder)
	text, indexErr := c.recorder.Read("upgrade-index.json")
	idx, parseErr := bundle.Parse(text)
	indexErr = errors.Join(indexErr, parseErr)
	if indexErr != nil || idx.Pack != two.Pack || err != nil || j.Ref != "here" || j.Epoch != 3 {
		t.Errorf("%+v, pack %+v, %v", j, idx.Pack, errors.Join(err, indexErr))
	}

	c.restarts()
}

// failing are partitions whose running ones cannot be read.
type failing struct{ disk.Partitions }

func (failing) OpenRunning(gpt.Partition) (io.ReaderAt, io.Closer, error) {
	return nil, nil, errors.New("input/output error")
}

// TestASlotThatCannotBeReadIsNoReasonToStay upgrades from a disk that is
// failing.
func TestASlotThatCannotBeReadIsNoReasonToStay(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.u.Disk.Partitions = failing{c.u.Disk.Partitions}
	c.upgrade("2.0.0", upgrade.Options{})
	if c.running.Version != "2.0.0" {
		t.Errorf("%s runs", c.running.Version)
	}
}

// TestAWayBackThatIsDamagedIsToldOf damages the other slot.
func TestAWayBackThatIsDamagedIsToldOf(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	if _, err := c.recorder.WriteAt([]byte("damage"),
		c.table.Partitions[2].Start+5000); err != nil {
		t.Fatal(err)
	}

	s, stop := c.serve()

	_, err := s.Handle(t.Context(), service.Request{Rollback: true})
	if !errors.Is(err, service.ErrDamaged) {
		t.Errorf("error %v", err)
	}

	stop()
}

// TestAFetchIsCanceled has an operator cancel an upgrade whose repository
// hangs. An upgrade is then taken at once.
func TestAFetchIsCanceled(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	two := c.releases[1].index
	if err := c.u.Begin(two, upgrade.Options{Ref: server.URL}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}

	s, stop := c.serve()
	<-asked

	version, err := s.Handle(t.Context(), service.Request{Cancel: true})
	if err != nil || version != "2.0.0" {
		t.Errorf("canceled %q: %v", version, err)
	}
	if state := s.State(); state.Phase != "" || state.Problem != "" {
		t.Errorf("state %+v", state)
	}
	_, err = s.Handle(t.Context(), service.Request{Cancel: true})
	if fault.Of(err) != fault.NothingToCancel {
		t.Errorf("once more: %v", err)
	}

	stop()
	pace := upgrade.Facts{Pace: time.Hour}
	if _, err := c.u.Check(two, upgrade.Options{}, pace); err != nil {
		t.Errorf("begun again: %v", err)
	}
}

// TestReadingARepositoryIsCanceled has an operator cancel an upgrade before the
// repository, which accepts connections and never answers, has said what there is.
func TestReadingARepositoryIsCanceled(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	dir, _ := published(t, nil, c.u.Now())
	root, err := os.ReadFile(filepath.Join(dir, "metadata/1.root.json"))
	if err != nil {
		t.Fatal(err)
	}

	s, stop := c.serveFrom(service.Releases{
		Ref:  server.URL,
		Root: root,
		Keep: c.recorder,
	})
	defer stop()

	refused := make(chan error, 1)
	go func() {
		_, err := s.Handle(t.Context(), service.Request{Version: "2.0.0"})
		refused <- err
	}()
	<-asked

	version, err := s.Handle(t.Context(), service.Request{Cancel: true})
	if err != nil || version != "2.0.0" {
		t.Errorf("canceled %q: %v", version, err)
	}
	if err := <-refused; fault.Of(err) != fault.UpgradeCanceled {
		t.Errorf("the upgrade ended with %v", err)
	}
	_, err = s.Handle(t.Context(), service.Request{Cancel: true})
	if fault.Of(err) != fault.NothingToCancel {
		t.Errorf("once more: %v", err)
	}
}

// TestTwoOperatorsCancel at the same time: neither interrupts the other.
func TestTwoOperatorsCancel(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	two := c.releases[1].index
	if err := c.u.Begin(two, upgrade.Options{Stay: true}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}
	c.run(upgrade.Verdict{})
	s, stop := c.serve()
	defer stop()

	const operators = 8
	errs := make(chan error)
	for range operators {
		go func() {
			_, err := s.Handle(t.Context(), service.Request{Cancel: true})
			errs <- err
		}()
	}
	for range operators {
		if err := <-errs; err != nil && fault.Of(err) != fault.NothingToCancel {
			t.Errorf("canceled: %v", err)
		}
	}
}

// TestAnArmedUpgradeIsCanceled has the caller of the upgrade wait for nothing.
func TestAnArmedUpgradeIsCanceled(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	two := c.releases[1].index
	if err := c.u.Begin(two, upgrade.Options{Stay: true}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}
	c.run(upgrade.Verdict{})

	_, err := c.u.Rollback(upgrade.Options{}, true)
	if fault.Of(err) != fault.UpgradeUnderWay || !strings.Contains(err.Error(), "2.0.0") {
		t.Errorf("back beside what is armed: %v", err)
	}

	target, err := c.u.Cancel()
	if err != nil || target.Version != "2.0.0" {
		t.Errorf("canceled %v: %v", target, err)
	}
	c.run(upgrade.Verdict{})
	c.boot()
	if c.running.Version != "1.0.0" {
		t.Errorf("%s runs", c.running.Version)
	}
}

// TestATrialIsNotCanceled says how it is ended.
func TestATrialIsNotCanceled(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})

	_, err := c.u.Cancel()
	_, planned := c.u.Check(c.releases[2].index, upgrade.Options{}, upgrade.Facts{})
	for _, err := range []error{err, planned} {
		if fault.Of(err) != fault.UpgradeOnTrial ||
			!strings.Contains(hint.Of(err), "loam rollback --os") {
			t.Errorf("on trial: %s", hint.Text(err))
		}
	}
}

// TestADamagedPackIsNamed has a repository send other bytes than were published.
func TestADamagedPackIsNamed(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 64<<20)))
	}))
	defer server.Close()
	two := c.releases[1].index
	if err := c.u.Begin(two, upgrade.Options{Ref: server.URL}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}

	s, stop := c.serve()

	problem := ""
	for problem == "" {
		<-s.Changed()
		problem = s.State().Problem
	}
	stop()
	begins := "fetch " + two.Pack.Name + " from " + server.URL + ": "
	if !strings.HasPrefix(problem, begins) || !strings.Contains(problem, "loamctl publish") {
		t.Errorf("problem %q", problem)
	}
}

// serve runs a service that must not restart the machine, until stop is called.
func (c *course) serve() (s *service.Service, stop func()) {
	return c.serveFrom(service.Releases{})
}

// serveFrom is serve with a repository.
func (c *course) serveFrom(releases service.Releases) (s *service.Service, stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	s = service.New(&service.Service{
		Upgrader: c.u,
		Machine:  machine{func() { c.t.Error("it restarts") }},
		Releases: releases,
		Log:      zap.NewNop(),
	})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return s, func() {
		cancel()
		<-done
	}
}
