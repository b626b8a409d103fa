package service

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

func TestChoose(t *testing.T) {
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	release := func(version string, waves ...repository.Wave) repository.Release {
		return repository.Release{Version: version, Waves: waves}
	}
	reached := repository.Wave{After: hour(-1), Share: 100}
	tomorrow := repository.Wave{After: hour(24), Share: 100}
	// The machine "near" is in the first half of the machines for 3.0.0, "far" is not.
	half := []repository.Wave{{After: now, Share: 50}, {After: hour(24), Share: 100}}

	for _, tt := range []struct {
		name    string
		all     []repository.Release
		w       wanted
		machine string
		want    string // The version, or
		err     string // what is in the error.
	}{
		{"the newest", []repository.Release{release("3.0.0"), release("2.0.0")}, wanted{}, "", "3.0.0", ""},
		{"one of them", []repository.Release{release("3.0.0"), release("2.0.0")},
			wanted{version: "2.0.0"}, "", "2.0.0", ""},
		{"none of them", []repository.Release{release("3.0.0")}, wanted{version: "2.0.0"}, "", "",
			"hint: it has 3.0.0"},
		{"nothing is published", nil, wanted{}, "", "", "not in the repository"},

		{"a wave that has begun", []repository.Release{release("3.0.0", reached)}, wanted{}, "", "3.0.0", ""},
		{"a wave that begins now", []repository.Release{release("3.0.0", half...)}, wanted{}, "near",
			"3.0.0", ""},
		{"the next wave", []repository.Release{release("3.0.0", half...)}, wanted{}, "far", "",
			"3.0.0 reaches this machine on Mon, 10 Sep 2001 at 01:46 UTC"},
		{"a wave that is not planned", []repository.Release{release("3.0.0", half[0])}, wanted{}, "far",
			"", "3.0.0 is not for this machine yet"},
		{"a person in a hurry", []repository.Release{release("3.0.0", tomorrow)}, wanted{atOnce: true}, "",
			"3.0.0", ""},
		{"a version whose wave is to come", []repository.Release{release("3.0.0", tomorrow)},
			wanted{version: "3.0.0"}, "", "", "3.0.0 reaches this machine"},
		{"an older version whose wave is to come", []repository.Release{release("0.5.0", tomorrow)},
			wanted{version: "0.5.0"}, "", "", "0.5.0 reaches this machine"},

		{"the newest that has come", []repository.Release{release("3.0.0", tomorrow), release("2.0.0", reached)},
			wanted{}, "", "2.0.0", ""},
		{"the newest that has come runs", []repository.Release{release("3.0.0", tomorrow), release("1.0.0")},
			wanted{}, "", "", "3.0.0 reaches this machine"},
		{"the next of two that are to come", []repository.Release{
			release("3.0.0", tomorrow), release("2.0.0", repository.Wave{After: hour(2), Share: 100}),
		}, wanted{}, "", "", "2.0.0 reaches this machine on Sun, 9 Sep 2001 at 03:46 UTC"},
		{"an older one is to come", []repository.Release{release("1.0.0"), release("0.5.0", tomorrow)},
			wanted{}, "", "1.0.0", ""},
	} {
		tt.w.running = "1.0.0"
		got, err := choose(tt.all, tt.w, tt.machine, now)
		text := ""
		if err != nil {
			text = hint.Text(err)
		}
		if got.Version != tt.want || (text == "") != (tt.err == "") || !strings.Contains(text, tt.err) {
			t.Errorf("%s: %q, %s; want %q, %q", tt.name, got.Version, text, tt.want, tt.err)
		}
	}
}

// published is a repository with the releases 1.0.0 and 2.0.0.
type published struct {
	dir  string
	edit publish.Edit
}

func newPublished(t *testing.T, waves ...repository.Wave) published {
	t.Helper()
	dir := t.TempDir()
	keys, err := publish.NewKeys(filepath.Join(t.TempDir(), "keys"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := publish.Init(dir, keys, 1, publish.DefaultExpiries(), now); err != nil {
		t.Fatal(err)
	}

	for _, version := range []string{one.Version, two.Version} {
		files := t.TempDir()
		b := update.Bundle{
			Pack:   filepath.Join(files, "pack"),
			Root:   filepath.Join(files, "root"),
			Verity: filepath.Join(files, "verity"),
			UKI:    filepath.Join(files, "efi"),
			Waves:  waves,
		}
		for _, path := range []string{b.Root, b.Verity, b.UKI} {
			content := bytes.Repeat([]byte(path+version+"\n"), 5000)
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := b.Write(bundle.Sources{
			ImageID:  "loam-node-os",
			Version:  version,
			Arch:     "amd64",
			Profile:  "cloud",
			RootHash: strings.Repeat("a", 64),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = publish.Publish(t.Context(), dir, keys, b, publish.DefaultExpiries(), now, meter.None)
		if err != nil {
			t.Fatal(err)
		}
	}

	return published{dir, publish.Edit{
		Dir:      dir,
		Version:  two.Version,
		Keys:     keys,
		Expiries: publish.DefaultExpiries(),
		Now:      now,
		Report:   meter.None,
	}}
}

// follow has a runner follow the repository.
func (p published) follow(t *testing.T, r *runner) {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(p.dir, "metadata/1.root.json"))
	if err != nil {
		t.Fatal(err)
	}
	r.Releases = Releases{
		Ref:     p.dir,
		Root:    root,
		Keep:    r.Upgrader.Records,
		Machine: "near",
	}
	r.Upgrader.Boot.ImageID = "loam-node-os"
	r.Upgrader.Disk.Arch = "amd64"
}

// events are the reasons of Events.
type events struct {
	restarting
	reasons *[]string
}

func (e events) Event(_ bool, reason, _ string) { *e.reasons = append(*e.reasons, reason) }

func TestAReleaseIsWithdrawnBeforeTheRestart(t *testing.T) {
	withdraw := func(t *testing.T, p published) {
		t.Helper()
		if _, err := p.edit.Withdraw(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}

	for _, tt := range []struct {
		name     string
		change   func(t *testing.T, p published)
		restarts bool
	}{
		{"it is there", func(*testing.T, published) {}, true},
		{"it was withdrawn", withdraw, false},
		{"its waves are stopped: it has reached this machine", func(t *testing.T, p published) {
			t.Helper()
			later := []repository.Wave{{After: now.Add(time.Hour), Share: 1}}
			if _, err := p.edit.SetWaves(t.Context(), later); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"the repository is away", func(t *testing.T, p published) {
			t.Helper()
			withdraw(t, p)
			if err := os.Rename(p.dir, p.dir+".away"); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, restarts := armedRunner(t)
			p := newPublished(t)
			p.follow(t, r)
			var reasons []string
			r.Machine = events{restarting{restarts, new(string)}, &reasons}
			awaited := one
			r.Turns = turnsOf{may: &two, awaited: &awaited}
			tt.change(t, p)
			// What the disk has of it is another test's: this runner has no disk.
			r.move(t.Context())

			j, err := upgrade.ReadJournal(r.Upgrader.Records)
			if err != nil {
				t.Fatal(err)
			}
			if *restarts != tt.restarts || j.Canceled == tt.restarts {
				t.Errorf("restarts %v, canceled %v, want to restart %v", *restarts, j.Canceled, tt.restarts)
			}
			if !tt.restarts && (awaited != upgrade.System{} || strings.Join(reasons, " ") != "ReleaseWithdrawn") {
				t.Errorf("keeps the turn for %v; Events %v", awaited, reasons)
			}
		})
	}
}

// TestTheNewestIsFollowed has machine.yaml ask for the newest release, which is no
// refusal when that runs, and goes on whatever is wrong with one of them.
func TestTheNewestIsFollowed(t *testing.T) {
	refused := func(code fault.Code) func(*testing.T, *runner) error {
		return func(*testing.T, *runner) error { return fault.With(errors.New("refused"), code) }
	}

	for _, tt := range []struct {
		name           string
		err            func(t *testing.T, r *runner) error
		waits, problem string
	}{
		{"its wave is to come", func(t *testing.T, r *runner) error {
			t.Helper()
			newPublished(t, repository.Wave{After: now.Add(time.Hour), Share: 100}).follow(t, r)
			_, _, err := r.begin(t.Context(), Request{})
			return err
		}, "2.0.0 reaches this machine on Sun, 9 Sep 2001 at 02:46 UTC", ""},
		{"it runs", refused(fault.AlreadyRunning), "", ""},
		{"what runs was withdrawn", refused(fault.Downgrade), "", ""},
		{"it failed here", refused(fault.FailedBefore), "", "machine.yaml, upgrade.version: refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := armedRunner(t)
			r.version = Newest
			r.reportRefusal(tt.err(t, r))
			if s := r.State(); s.Waits != tt.waits || s.Problem != tt.problem || r.version != Newest {
				t.Errorf("waits %q, problem %q, follows %q", s.Waits, s.Problem, r.version)
			}
		})
	}
}

// The error of a step is in the log, in the status, and on the consoles.
func TestTheErrorOfAStepHasNoPassword(t *testing.T) {
	r, _ := armedRunner(t)
	p := newPublished(t)
	p.follow(t, r)
	index, _, err := r.Releases.find(t.Context(),
		wanted{imageID: "loam-node-os", arch: "amd64", atOnce: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := index.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Upgrader.Records.Write("upgrade-index.json", text); err != nil {
		t.Fatal(err)
	}

	release := underWay{r.Upgrader.Records, "https://ada:s3cret@192.0.2.1/updates"}
	err = release.named(fill.Unreached(errors.New("server answers 503")))
	problem := statusOf(r.Upgrader, upgrade.Op{}, err).Problem
	if strings.Contains(problem, "s3cret") || !strings.Contains(problem, "://ada:xxxxx@192.0.2.1") {
		t.Error(problem)
	}
}
