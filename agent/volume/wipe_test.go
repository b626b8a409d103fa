package volume

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// code is the code under test, or one with a bug.
type code struct {
	look   func(*inMemory) Content
	decide func(Facts, Claim) (Choice, error)
}

// tally counts the outcomes of scenarios.
type tally struct {
	disks, formatted, used, refused int
	// falseWipes are disks that Decide would have formatted and must not,
	// missed are disks that it should have formatted, and lost are volumes that
	// it did not find.
	falseWipes, missed, lost []string
}

// try makes scenarios until there are n disks, and counts their outcomes.
func try(t testing.TB, n int, c code) tally {
	var sum tally
	m := &maker{Rand: rand.New(rand.NewPCG(6, 2026)), facts: facts(t, "libblkid.txt", "copies.txt")}
	for m.count < n {
		w := m.scenario()
		var disks []Disk
		for _, d := range w.disks {
			d.disk.Content = c.look(d.bytes)
			if d.bytes.outside > 0 {
				t.Errorf("%s: %d reads beyond the disk", d.kind, d.bytes.outside)
			}
			disks = append(disks, d.disk)
		}

		f := Facts{Disks: disks, Made: w.had, Field: w.purpose.Field}
		for _, p := range Purposes() {
			if p != w.purpose {
				f.Rivals = append(f.Rivals, Rival{p.Field, w.rival})
			}
		}
		choice, err := c.decide(f, w.claim)
		sum.add(w, choice, err)
	}

	sum.disks = m.count
	return sum
}

func (s *tally) add(w scenario, got Choice, err error) {
	action, device := w.expected()
	switch {
	case err != nil:
		s.refused++
	case got.Action == ToUse:
		s.used++
	default:
		s.formatted++
	}

	if got.Action == action && got.Device == device {
		return
	}

	what := fmt.Sprintf("%s, claim %v, beside %v: had %v, got %s %s, want %s %s of",
		w.purpose.Field, w.claim, w.rival, w.had, got.Action, got.Device, action, device)
	for _, d := range w.disks {
		what += fmt.Sprintf("\n  %s %d %s uses %v ro %v removable %v network %q twin %v broken %v",
			d.disk.Device, d.disk.Size, d.kind, d.disk.Uses, d.disk.ReadOnly, d.disk.Removable,
			d.disk.Network, d.twin, d.unreadable)
	}

	if got.Action == ToFormat || got.Action == ToFinish {
		s.falseWipes = append(s.falseWipes, what)
	}
	if action == ToFormat || action == ToFinish {
		s.missed = append(s.missed, what)
	}
	if action == ToUse || got.Action == ToUse {
		s.lost = append(s.lost, what)
	}
}

// generated is how many disks are made: no fewer than the 10,000 of the
// promise.
const generated = 10_000

func right(s *inMemory) Content { return ReadContent(s, s.size) }

func TestNoDiskIsWipedByMistake(t *testing.T) {
	n := judge.PickOf(2_000, generated, generated)
	got := try(t, n, code{right, Decide})
	for _, list := range [][]string{got.falseWipes, got.missed, got.lost} {
		for _, what := range list[:min(len(list), 3)] {
			t.Error(what)
		}
	}
	t.Logf("%d generated disks: %d false wipes, %d missed empty disks, %d volumes lost; "+
		"%d formatted, %d used, %d refused",
		got.disks, len(got.falseWipes), len(got.missed), len(got.lost), got.formatted,
		got.used, got.refused)
	if few := n / 100; got.formatted < few || got.used < few || got.refused < few {
		t.Error("the generated disks are too much alike")
	}
}

// masked reads zeros where a bug does not look.
type masked struct {
	*inMemory
	hidden func(off, n int64) bool
}

func (m masked) ReadAt(p []byte, off int64) (int, error) {
	if m.hidden(off, int64(len(p))) {
		clear(p)
		return len(p), nil
	}
	return m.inMemory.ReadAt(p, off)
}

// lenient reads zeros where the disk cannot be read.
type lenient struct{ io.ReaderAt }

func (l lenient) ReadAt(p []byte, off int64) (int, error) {
	if _, err := l.ReaderAt.ReadAt(p, off); err != nil {
		clear(p)
	}
	return len(p), nil
}

// TestSeededBugsWipeDisks: the test above finds each of these.
func TestSeededBugsWipeDisks(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestNoDiskIsWipedByMistake, not the product")
	hide := func(hidden func(s *inMemory, off, n int64) bool) func(*inMemory) Content {
		return func(s *inMemory) Content {
			return ReadContent(masked{
				s,
				func(off, n int64) bool { return hidden(s, off, n) },
			}, s.size)
		}
	}

	without := func(change func(*Disk)) func(Facts, Claim) (Choice, error) {
		return func(f Facts, c Claim) (Choice, error) {
			f.Disks = slices.Clone(f.Disks)
			for i := range f.Disks {
				change(&f.Disks[i])
			}
			return Decide(f, c)
		}
	}

	wipes := func(s tally) int { return len(s.falseWipes) }
	for _, bug := range []struct {
		name string
		code code
		harm func(tally) int
	}{
		{
			"looks at the start only",
			code{hide(func(s *inMemory, off, n int64) bool { return off+n > s.size-edge }), Decide},
			wipes,
		},
		{
			"looks at the end only",
			code{hide(func(_ *inMemory, off, _ int64) bool { return off < edge }), Decide},
			wipes,
		},
		{
			"looks at both ends only",
			code{
				hide(func(s *inMemory, off, n int64) bool {
					return off >= edge && off+n <= s.size-edge
				}),
				Decide,
			},
			wipes,
		},
		{"looks at 64 KiB of each end", code{hide(func(s *inMemory, off, n int64) bool {
			return off >= 64*kib && off+n <= s.size-64*kib && (off < edge || off+n > s.size-edge)
		}), Decide}, wipes},
		{
			"takes an unreadable disk for an empty one",
			code{func(s *inMemory) Content { return ReadContent(lenient{s}, s.size) }, Decide},
			wipes,
		},
		{"believes names only", code{func(s *inMemory) Content {
			c := right(s)
			c.Evidence = slices.DeleteFunc(c.Evidence, func(e Evidence) bool {
				return e.Name == Unknown
			})
			return c
		}, Decide}, wipes},
		{
			"does not know its volumes",
			code{func(s *inMemory) Content { c := right(s); c.FileSystem = ""; return c }, Decide},
			wipes,
		},
		{"forgets who uses a disk", code{right, without(func(d *Disk) { d.Uses = nil })}, wipes},
		{"does not see twins", code{right, without(func(d *Disk) { d.WWID = "" })}, wipes},
		{"takes removable disks", code{right, without(func(d *Disk) { d.Removable = false })}, wipes},
		{"takes disks of the network", code{right, without(func(d *Disk) { d.Network = "" })}, wipes},
		{
			"takes the first empty disk that matches",
			code{right, func(f Facts, c Claim) (Choice, error) {
				for _, d := range f.Disks {
					if c.Matches(d) && obstacle(d, f.Disks) == "" && f.rival(d) == "" {
						return Choice{Action: ToFormat, Device: d.Device}, nil
					}
				}
				return Decide(f, c)
			}},
			wipes,
		},
		{
			"takes the only empty one whatever is asked",
			code{right, func(f Facts, c Claim) (Choice, error) {
				c.OnlyEmpty = true
				return Decide(f, c)
			}},
			wipes,
		},
		{
			"forgets that there was a volume",
			code{right, func(f Facts, c Claim) (Choice, error) {
				f.Made = false
				return Decide(f, c)
			}},
			wipes,
		},
		{
			"forgets the other claim",
			code{right, func(f Facts, c Claim) (Choice, error) {
				f.Rivals = nil
				return Decide(f, c)
			}},
			wipes,
		},
		{
			"finishes what was begun for another purpose",
			code{right, func(f Facts, c Claim) (Choice, error) {
				f.Disks = slices.Clone(f.Disks)
				for i := range f.Disks {
					if f.Disks[i].Content.Unfinished {
						f.Disks[i].Content.Volume = f.purpose().Label
					}
				}
				return Decide(f, c)
			}},
			wipes,
		},
		{
			"takes the volume of another purpose",
			code{right, func(f Facts, c Claim) (Choice, error) {
				f.Disks = slices.Clone(f.Disks)
				for i := range f.Disks {
					f.Disks[i].Content.Volume = f.purpose().Label
				}
				return Decide(f, c)
			}},
			func(s tally) int { return len(s.lost) },
		},
		{
			"takes the volume of another purpose for nothing",
			code{func(s *inMemory) Content {
				c := right(s)
				if c.Volume != "" {
					return Content{}
				}
				return c
			}, Decide},
			wipes,
		},
		{
			"refuses all",
			code{right, func(Facts, Claim) (Choice, error) { return Choice{}, ErrNone }},
			func(s tally) int { return len(s.missed) },
		},
	} {
		t.Run(bug.name, func(t *testing.T) {
			got := bug.harm(try(t, 1500, bug.code))
			if got == 0 {
				t.Error("not noticed")
			}
			t.Logf("%d scenarios gone wrong", got)
		})
	}
}
