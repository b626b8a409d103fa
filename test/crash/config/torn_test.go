package config_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/test/power"
)

// same has the same paths whatever text is: nothing is left over that only a
// lost manifest could tell.
func same(text string) config.Desired {
	return config.Desired{
		Files: []config.File{
			conf("/etc/app/a.conf", text, 0o644), conf("/etc/kubernetes/pki/ca", text, 0o600),
			conf("/etc/other", "the same", 0o644), conf("/var/lib/app/data", text, 0o640),
		},
		Units: []config.Unit{daemon(
			"a.service",
			"/etc/app/a.conf",
		), daemon("data.service", "/var/lib/app/data"), daemon("stays.service")},
	}
}

// stopped is a node at the end of its agent, or of its power.
type stopped struct {
	playback
	point
}

// stops are nodes that run new after old, watched or proven, with something
// held.
func (o *oracle) stops(t *testing.T, old, new config.Desired) []stopped {
	t.Helper()
	var all []stopped
	for _, name := range []string{"watched", "proven"} {
		n := newCrashNode(t, o.image)
		e := n.executor()
		err := errors.Join(
			applyGood(e, old),
			e.Hold(apply.Held{Digest: small("1").Digest()}),
			applies(new)(t.Context(), e),
		)
		if name == "proven" {
			err = errors.Join(err, concludeGood(e))
		}
		disk, readErr := power.Read(n.root)
		err = errors.Join(err, readErr)
		if err != nil {
			t.Fatal(err)
		}
		r := playback{scenario: scenario{name: name}, image: o.image, boots: n.boots}
		for _, c := range []crash{{kill: true}, {loss: power.Loss{
			Entries: power.All,
			Content: power.All,
		}}} {
			all = append(all, stopped{r, point{
				crash: c,
				disk:  c.leave(disk),
				units: n.systemd.keep(),
			}})
		}
	}

	return all
}

// damaged is a row of TestTornStateFileIsDerivedFromDisk.
type damaged struct {
	name, file string
	tears      []tear
	allowed    []config.Desired
	// repair says that it is Verify that repairs it. What has started with
	// damaged content keeps that, so it is only the agent that restarts.
	repair bool
}

// meets reports whether there is something to damage: the journal goes when a
// change has proven itself, and /run with the power.
func (d damaged) meets(s stopped) bool {
	return (d.file != journal || s.name == "watched") &&
		(s.kill || (!d.repair && !strings.HasPrefix(d.file, "run/")))
}

// TestTornStateFileIsDerivedFromDisk damages one name on a node that runs a
// configuration, and restarts its agent or the machine.
func TestTornStateFileIsDerivedFromDisk(t *testing.T) {
	old, new := same("old"), same("new")
	tests := []damaged{
		{"the journal", journal, tears, oneOf(new), false},
		{"the history", stateDir + "/history.jsonl", tears, oneOf(new), false},
		{"what is held", stateDir + "/held.json", tears, oneOf(new), false},
		{"the last OS version", stateDir + "/os-version", tears, oneOf(new), false},
		{"the progress", "run/loam/progress.json", tears, oneOf(new), false},
		{"the current manifest", flip + "/manifest.json", tears, oneOf(old), false},
		{"the current link", flip, misled, oneOf(old, new), false},
		{"the link of a generation to its files", flip + "/root", misled, oneOf(old), false},
		{"the root directory of a generation", flip + "/root", lost, oneOf(old), false},
		{"a directory of a generation", flip + "/root/etc/app", lost, oneOf(new), true},
		{"a link to a directory", flip + "/root/etc/app", misled, oneOf(new), true},
		{"a file of a generation", flip + "/root/etc/app/a.conf", tears, oneOf(new), true},
		{"content of a real file", flip + "/root/var/lib/app/data", tears, oneOf(new), true},
	}

	o := &oracle{t: t, image: crashImage(t), known: map[string]looks{}}
	stops := o.stops(t, old, new)
	for _, tt := range tests {
		for _, tear := range tt.tears {
			t.Run(tt.name+" is "+tear.name, func(t *testing.T) {
				for _, s := range stops {
					if !tt.meets(s) {
						continue
					}
					if err := s.damage(o, tt, tear); err != nil {
						t.Errorf("%s, %s: %v", s.name, s.crash, err)
					}
				}
			})
		}
	}
}

// damage makes the damage and returns what is wrong with the node afterwards.
func (s stopped) damage(o *oracle, row damaged, tear tear) error {
	var did error
	n, end, err := s.restart(
		s.crash,
		s.disk,
		s.units,
		s.boots,
		func(n *crashNode) { did = tear.do(n.root, row.file) },
	)
	if end != nil {
		defer end()
	}
	err = errors.Join(err, did)
	if err == nil && row.repair {
		err = n.repair(row.allowed[0])
	}

	next := small("2")
	if err == nil {
		err = o.check(n, row.allowed, next)
	}
	if err != nil {
		return err
	}

	history, err := apply.History(n.state.FS())
	if last := history[len(history)-1]; err != nil || last.Outcome != apply.Applied ||
		!strings.HasSuffix(last.Generation, next.Digest()[:12]) {
		return fmt.Errorf("the history ends with %+v: %w", last, err)
	}

	return nil
}

// repair is what `loam verify --repair` does of a node that runs d.
func (n *crashNode) repair(d config.Desired) error {
	vendor, err := generation.ReadVendor(n.image.FS(), d)
	if err != nil {
		return err
	}

	tree, err := generation.Expand(d, vendor)
	if err != nil {
		return err
	}

	e := n.executor()
	if _, err := e.Resume(context.Background()); err != nil {
		return err
	}

	v, err := e.Verify(context.Background(), tree.Content, true, nil)
	if err != nil || len(v.Bad) == 0 {
		return fmt.Errorf("repair: nothing found, or %w", err)
	}
	return nil
}
