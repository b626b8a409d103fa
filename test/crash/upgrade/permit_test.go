package upgrade_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/service"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

// published is a repository with releases, signed now.
func published(t *testing.T, releases []release, now time.Time) (dir string, keys publish.Keys) {
	t.Helper()
	dir = t.TempDir()
	keys, err := publish.NewKeys(filepath.Join(t.TempDir(), "keys"), 1)
	if err == nil {
		err = publish.Init(dir, keys, 1, publish.DefaultExpiries(), now)
	}

	if err != nil {
		t.Fatal(err)
	}

	for _, r := range releases {
		files := t.TempDir()
		b := update.Bundle{
			Pack:   filepath.Join(files, "pack"),
			Root:   filepath.Join(files, "root"),
			Verity: filepath.Join(files, "verity"),
			UKI:    filepath.Join(files, "efi"),
		}

		for file, content := range map[string][]byte{
			b.Root:   r.root,
			b.Verity: r.verity,
			b.UKI:    r.uki,
		} {
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}

		if err := b.Write(bundle.Sources{
			ImageID:  imageID,
			Version:  r.Version,
			Arch:     arch,
			Profile:  "cloud",
			RootHash: r.RootHash,
		}); err != nil {
			t.Fatal(err)
		}

		_, err := publish.Publish(t.Context(), dir, keys, b, publish.DefaultExpiries(), now, meter.None)
		if err != nil {
			t.Fatal(err)
		}
	}

	return dir, keys
}

// serviceOf returns the service of a node that runs 2.0.0 and knows a
// repository with 1.0.0 in it, too.
func serviceOf(t *testing.T) (s *service.Service, keys publish.Keys) {
	t.Helper()
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	dir, keys := published(t, c.releases, c.u.Now())
	root, err := os.ReadFile(filepath.Join(dir, "metadata/1.root.json"))
	if err != nil {
		t.Fatal(err)
	}

	return service.New(&service.Service{
		Upgrader: c.u,
		Releases: service.Releases{Ref: dir, Root: root, Keep: c.recorder},
		Machine:  machine{func() {}},
		Hostname: "node-1",
		Log:      zap.NewNop(),
	}), keys
}

// ask has a service answer one request.
func ask(t *testing.T, s *service.Service, r service.Request) (version string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()

	version, err = s.Handle(ctx, r)
	cancel()
	<-done

	return version, err
}

func TestADowngradeTakesAPermit(t *testing.T) {
	s, keys := serviceOf(t)
	now := s.Upgrader.Now()
	permit := func(keys publish.Keys, version, node string, good time.Duration) []byte {
		_, text, err := publish.SignPermit(s.Releases.Ref, keys, version, node, now.Add(good))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}

	for _, test := range []struct {
		name   string
		permit []byte
		code   fault.Code
	}{
		{"none", nil, fault.Downgrade},
		{"for another version", permit(keys, "2.0.0", "", time.Hour), fault.NoSuchPermit},
		{"for another node", permit(keys, "1.0.0", "node-2", time.Hour), fault.NoSuchPermit},
		{"that has expired", permit(keys, "1.0.0", "", -time.Second), fault.NoSuchPermit},
		{"that is empty", []byte{}, fault.NoSuchPermit},
		{"for all nodes", permit(keys, "1.0.0", "", time.Hour), ""},
		{"for this node", permit(keys, "1.0.0", "node-1", time.Hour), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			// A request cannot allow it.
			version, err := ask(t, s, service.Request{
				Options: upgrade.Options{Downgrade: true, Again: true},
				Version: "1.0.0",
				Permit:  test.permit,
				Plan:    true,
			})
			refusedWith(t, err, test.code)
			if (err == nil && version != "1.0.0") || (err != nil && !strings.Contains(hint.Text(err),
				"`loamctl permit --repository DIR --keys DIR --version 1.0.0`")) {
				t.Errorf("%s, %v", version, err)
			}
		})
	}

	// The status keeps the releases of the repository, whatever a request does.
	if got := s.State().Releases; !slices.Equal(got, []string{"2.0.0", "1.0.0"}) {
		t.Errorf("releases %q", got)
	}
}

// TestAStatePartitionThatIsFullIsNoNetwork: the node must not try that again as
// it is.
func TestAStatePartitionThatIsFullIsNoNetwork(t *testing.T) {
	s, _ := serviceOf(t)
	s.Releases.Keep = recordedFiles{}
	_, err := ask(t, s, service.Request{Plan: true})
	if !errors.Is(err, repository.ErrNotKept) || errors.Is(err, fill.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

// TestAClockThatIsBehindIsToldOf: what expires goes by when the repository was
// signed.
func TestAClockThatIsBehindIsToldOf(t *testing.T) {
	s, _ := serviceOf(t)
	signed := s.Upgrader.Now()
	for now, want := range map[time.Time]int{signed: 0, time.Unix(0, 0): 1} {
		core, logs := observer.New(zap.WarnLevel)
		s.Log, s.Upgrader.Now = zap.New(core), func() time.Time { return now }

		_, err := ask(t, s, service.Request{Version: "2.0.0", Plan: true})
		if err == nil || !strings.Contains(err.Error(), "runs already") {
			t.Errorf("error %v", err)
		}

		if logs.Len() != want ||
			(want > 0 && !logs.All()[0].ContextMap()["proven"].(time.Time).Equal(signed)) {
			t.Errorf("at %v: %v", now, logs.All())
		}
	}
}
