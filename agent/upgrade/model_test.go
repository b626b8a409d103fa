package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/test/judge"
)

// model is a machine as far as upgrades go. It is small, and equal worlds have
// equal texts, so that all that can be reached are visited once.
type model struct {
	// slots are versions, "" for an empty one; running is the slot of this
	// boot.
	slots   [2]string
	running int
	entries []disk.Entry
	journal *Journal
	failed  []string

	// filled, staged and rebooting are of this boot; down says that the machine
	// is off.
	filled, staged, down bool
}

func (w model) String() string {
	flag := func(on bool) string { return map[bool]string{true: "+", false: "-"}[on] }
	parts := append([]string{
		w.slots[0], w.slots[1],
		flag(w.running == 1) + flag(w.filled) + flag(w.staged) + flag(w.down),
	}, w.failed...)

	for _, e := range w.entries {
		parts = append(parts, e.File)
	}

	if j := w.journal; j != nil {
		flags := flag(j.Rollback) + flag(j.Canceled) + flag(j.Present)
		parts = append(parts, string(j.Phase), j.Target.Version, j.From.Version, flags)
		if j.Drill != nil {
			parts = append(parts, j.Drill.By, flag(j.Drill.Tried))
		}
	}

	return strings.Join(parts, " ")
}

func (w model) clone() model {
	w.entries = slices.Clone(w.entries)
	w.failed = slices.Clone(w.failed)
	if w.journal != nil {
		j := *w.journal
		if j.Drill != nil {
			d := *j.Drill
			j.Drill = &d
		}
		w.journal = &j
	}
	return w
}

func entry(version string, counted bool, left, done int) disk.Entry {
	n := bootentry.Name{
		ImageID:   "loam-node-os",
		Version:   version,
		Arch:      "x86-64",
		Counted:   counted,
		TriesLeft: left,
		TriesDone: done,
	}
	file, err := bootentry.Format(n)
	if err != nil {
		panic(err)
	}
	return disk.Entry{Name: n, File: file, RootHash: version}
}

// view is what the agent sees; a version is its root hash.
func (w model) view(v Word) View {
	version := w.slots[w.running]
	view := View{
		Running:   System{version, version},
		Entry:     entry(version, true, Tries, 0).File,
		Holds:     w.slots[1-w.running],
		Entries:   w.entries,
		Journal:   w.journal,
		Filled:    w.filled,
		StagedUKI: w.staged,
		Verdict:   Verdict{Word: v},
	}

	for _, f := range w.failed {
		view.Failed = append(view.Failed, Failure{Version: f, RootHash: f})
	}

	return view
}

// do is what an op does, as a whole.
func (w model) do(op Op) model {
	w = w.clone()
	at := slices.IndexFunc(w.entries, func(e disk.Entry) bool { return e.File == op.File })
	target := 1 - w.running
	switch op.Kind {
	case Drop:
		w.entries = slices.Delete(w.entries, at, at+1)
	case Empty:
		w.slots[target] = ""
	case Fill, Verify:
		w.filled = true
	case Seal:
		w.slots[target] = w.journal.Target.Version
	case StageUKI, CopyUKI:
		w.staged = true
	case Crash:
		w.down = true
	case Conclude:
		w.journal.Phase = Over
	case Arm:
		w.journal.Phase = Armed
	case Link:
		w.entries = append(w.entries, entry(w.journal.Target.Version, true, Tries, 0))
		w.staged = false
	case Relink:
		n, err := bootentry.Parse(op.To)
		if err != nil {
			panic(err)
		}
		w.entries = append(w.entries, disk.Entry{Name: n, File: op.To, RootHash: w.entries[at].RootHash})
	case Rename, Park:
		n, err := bootentry.Parse(op.To)
		if err != nil {
			panic(err)
		}
		w.entries[at].Name, w.entries[at].File = n, op.To
	case Reboot:
		w.down = true
	case Remember:
		w.failed = append(w.failed, w.journal.Target.Version)
		slices.Sort(w.failed)
	case Finish:
		j := w.journal
		w.journal = nil
		if j.Rollback && j.Target.Version == w.slots[w.running] &&
			!slices.Contains(w.failed, j.From.Version) {
			w.failed = append(w.failed, j.From.Version)
			slices.Sort(w.failed)
		}
	}

	return w
}

// cut is a power cut: what is only in memory is gone.
func (w model) cut() model {
	w = w.clone()
	w.filled = false
	w.staged = false
	w.down = true
	return w
}

// boot is the loader, which counts a try by renaming the entry. That is one
// sector, by how entries are placed (partitions/fat): done or not done. false
// is a directory from which nothing valid boots.
func (w model) boot() (next model, chosen disk.Entry, ok bool) {
	if len(w.entries) == 0 {
		return w, disk.Entry{}, false
	}

	at := 0
	for i, e := range w.entries {
		if bootentry.Compare(e.Name, w.entries[at].Name) < 0 {
			at = i
		}
	}

	chosen = w.entries[at]
	w = w.cut()
	w.down = false
	if w.journal != nil && w.journal.Drill != nil {
		w.journal.Drill.Tried = chosen.Counted && !chosen.Parked()
	}

	if chosen.Counted && chosen.TriesLeft > 0 {
		w.entries[at] = entry(chosen.Version, true, chosen.TriesLeft-1, min(9, chosen.TriesDone+1))
	}

	w.running = slices.Index(w.slots[:], chosen.RootHash)
	return w, chosen, w.running >= 0
}

// TestAllThatCanHappenEndsWell walks through every model that upgrades to and
// fro can lead to, with a power cut after any step.
func TestAllThatCanHappenEndsWell(t *testing.T) {
	began := time.Now()
	start := model{slots: [2]string{"1.0.0", ""}, entries: []disk.Entry{entry("1.0.0", false, 0, 0)}}
	seen := map[string]bool{start.String(): true}
	queue := []model{start}
	visit := func(w model) {
		if key := w.String(); !seen[key] {
			seen[key] = true
			queue = append(queue, w)
		}
	}

	for len(queue) > 0 && len(seen) < 2_000_000 {
		w := queue[0]
		queue = queue[1:]
		check(t, w)
		if t.Failed() {
			t.Fatalf("in model %s", w)
		}
		for _, next := range w.after() {
			visit(next)
		}
	}

	t.Logf("L0: %d worlds, in %s", len(seen), time.Since(began).Round(time.Second))
	if len(seen) < judge.Pick(10_000, 20_000) {
		t.Error("these are not all")
	}
}

// versions are what an operator asks for. Three are one more than there are slots.
func versions() []string {
	all := []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0"}
	return judge.Pick(all[:3], all)
}

// after are the worlds that may come next.
func (w model) after() (all []model) {
	if w.down {
		n, _, _ := w.boot()
		return append(all, n, n.cut()) // It comes up, or hangs, or the power is gone.
	}

	for _, verdict := range []Word{Wait, Good, Bad} {
		if verdict == Good && w.journal != nil && w.journal.Drill != nil {
			continue
		}
		if op := Next(w.view(verdict)); op.Kind != Nothing && op.Kind != Observe {
			all = append(all, w.do(op))
			if op.Kind == Verify { // Or it is damaged.
				all = append(all,
					w.do(Op{Kind: Drop, File: find(w.view(Wait), w.journal.Target.RootHash).File}))
			}
		}
	}

	all = append(all, w.cut())
	if j := w.journal; j != nil && j.Drill == nil && j.From.Version == w.slots[w.running] {
		n := w.clone()
		n.journal.Canceled = true
		all = append(all, n)
	}
	if w.journal == nil && Next(w.view(Wait)).Kind == Nothing {
		for _, version := range versions() {
			if version != w.slots[w.running] {
				all = append(all, w.want(version, false))
			}
		}

		if err := preflightDrill(w.view(Wait), Facts{Room: Room{Entries: 1}}); err == nil {
			for _, by := range []string{DrillCheck, DrillPanic} {
				n := w.want(w.slots[w.running], false)
				n.journal.Drill = &Drilling{By: by}
				all = append(all, n)
			}
		}

		target, err := PreflightRollback(w.view(Wait),
			Facts{ImageID: "loam-node-os", Room: Room{Entries: 1}}, 0, nil)
		if err == nil {
			all = append(all, w.want(target.Version, true))
		}
	}

	return all
}

// want is the model after an operator has asked for a version.
func (w model) want(version string, back bool) model {
	n := w.clone()
	from := w.slots[w.running]
	n.failed = slices.DeleteFunc(n.failed, func(f string) bool { return f == version })
	n.journal = &Journal{
		Phase:    Staging,
		Target:   System{version, version},
		From:     System{from, from},
		Rollback: back,
		Present:  find(w.view(Wait), version) != nil,
	}

	return n
}

// check is what has to hold of any model: the loader finds a valid system; if
// what is on trial never comes up, what was before does, within the tries,
// remembers that and goes on; if it does come up, it is kept.
func check(t *testing.T, w model) {
	t.Helper()
	off := w.cut()
	for _, good := range []bool{false, true} {
		n := off
		trial := ""
		j := w.journal
		if j != nil && j.Drill == nil && !j.Canceled &&
			!(j.Rollback && find(w.view(Wait), j.Target.RootHash) == nil) {
			trial = j.Target.Version
		}

		failed := slices.Contains(w.failed, trial)
		blessed := slices.ContainsFunc(w.entries, func(e disk.Entry) bool {
			return e.RootHash == trial && !e.Counted && !e.Orphan
		})

		boots := 0
		finished := false
		for boots = 0; boots < 2*Tries+3 && !finished; boots++ {
			next, chosen, ok := n.boot()
			if !ok {
				t.Errorf("boot %d: entry %q boots nothing", boots, chosen.File)
				return
			}

			n = next
			if n.slots[n.running] == trial && !good && !blessed {
				n = n.cut() // It hangs.
				continue
			}

			n, finished = n.finish(good || n.slots[n.running] != trial || blessed)
		}

		if !finished {
			t.Errorf("good %v: not finished after %d boots, in %s", good, boots, n)
			return
		}

		run := n.slots[n.running]
		if j := w.journal; j != nil && j.Drill != nil && run != j.Target.Version {
			t.Errorf("a drill of %s ends with %s, in %s", j.Target.Version, run, n)
		}

		switch {
		case w.journal != nil && w.journal.Canceled && run != w.journal.From.Version &&
			find(w.view(Wait), w.journal.From.RootHash) != nil:
			t.Errorf("%s was canceled, and runs, in %s", run, n)
		case n.journal != nil:
			t.Errorf("good %v: the journal stays, in %s", good, n)
		case trial != "" && good && !failed && !blessed && run != trial:
			if !slices.Contains(n.failed, trial) { // Its tries were used up before it could say so.
				t.Errorf("%s is good, and %s runs, in %s", trial, run, n)
			}
		case trial != "" && !good && !blessed && run == trial:
			t.Errorf("%s never comes up, and runs, in %s", trial, n)
		case trial != "" && !good && !blessed && !slices.Contains(n.failed, trial):
			t.Errorf("%s never comes up, and no record says so, in %s", trial, n)
		}
	}
}

// finish is the agent until it wants to restart the machine, or has nothing
// left to do.
func (w model) finish(good bool) (model, bool) {
	verdict := Bad
	if good && (w.journal == nil || w.journal.Drill == nil) {
		verdict = Good
	}

	for range 100 {
		op := Next(w.view(verdict))
		switch op.Kind {
		case Nothing:
			return w, true
		case Observe:
			return w, false
		case Reboot, Crash:
			return w.cut(), false
		}
		w = w.do(op)
	}

	return w, false
}
