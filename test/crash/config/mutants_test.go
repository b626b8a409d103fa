package config_test

import (
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/power"
)

// mutant is a bug that the engine could have, as a change of what it does: of
// as many ops, so that what a crash may leave stays the same.
type mutant struct {
	name, scenario string
	mutate         func([]power.Op)
}

const (
	journal = stateDir + "/journal.json"
	flip    = stateDir + "/os/" + crashVersion + "/current"
)

// flipFirst writes the journal when the flip is done.
func flipFirst(ops []power.Op) {
	start, end := power.FirstWrite(ops, journal)
	_, flipped := power.FirstWrite(ops, flip)
	power.Later(ops, start, end, flipped)
}

// placeFirst brings the real files about before journal and flip.
func placeFirst(ops []power.Op) {
	start, _ := power.FirstWrite(ops, journal)
	_, flipped := power.FirstWrite(ops, flip)
	_, placed := power.FirstWrite(ops, "var/lib/was")
	power.Later(ops, start, flipped, placed)
}

// forgetEarly removes the journal before the steps that it protects.
func forgetEarly(ops []power.Op) {
	end := slices.IndexFunc(ops, func(op power.Op) bool {
		return op.Op == durable.Remove &&
			op.Name == journal
	})
	_, flipped := power.FirstWrite(ops, flip)
	power.Later(ops, flipped, end, end+2)
}

// unsureConfirm forgets to sync the last journal.
func unsureConfirm(ops []power.Op) {
	for i, op := range slices.Backward(ops) {
		if op.Op == durable.Rename && op.Name == journal {
			ops[i+1].Op = power.Mark
			return
		}
	}
}

func mutants() []mutant {
	const one, all, good = "one file", "everything", "good, with old generations to delete"

	return []mutant{
		{"content is not synced", one, power.Without(durable.SyncFile, stateDir+"/store/sha256/*")},
		{"the directory of content is not synced", one, power.Without(
			durable.SyncDir,
			stateDir+"/store/sha256",
		)},
		{"the directories of a generation are not synced", one, power.Without(
			durable.SyncDir,
			stateDir+"/store/tree/*",
		)},
		{"the directory of directories is not synced", one, power.Without(
			durable.SyncDir,
			stateDir+"/store/tree",
		)},
		{"the manifest is not synced", one, power.Without(durable.SyncFile, stateDir+"/generations/*/*")},
		{"the directory of a generation is not synced", one, power.Without(
			durable.SyncDir,
			stateDir+"/generations/*",
		)},
		{"the list of generations is not synced", one, power.Without(
			durable.SyncDir,
			stateDir+"/generations",
		)},
		{"a first apply syncs nothing", "first apply", power.Without(durable.SyncAll, stateDir)},
		{"the flip is not synced", one, power.Without(durable.SyncDir, stateDir+"/os/*")},
		{"the journal's name is not synced", one, power.Without(durable.SyncDir, stateDir)},
		{"the journal's content is not synced", one, power.Without(durable.SyncFile, stateDir+"/.*")},
		{"the journal comes after the flip", one, flipFirst},
		{"real files come before the flip", all, placeFirst},
		{"the journal goes before the files are placed", "bad", forgetEarly},
		{"a confirmation is not synced", "try and confirm", unsureConfirm},
		{"content goes before its generation is sure to", good, power.Without(
			durable.SyncDir,
			stateDir+"/generations",
		)},
		{"real files are not synced", good, power.Without(durable.SyncFile, "var/lib/app/*")},
		{"the names of real files are not synced", good, power.Without(durable.SyncDir, "var/lib/app")},
	}
}

// plainCrashes are, before each op, a kill and the cuts after which the disk
// has all entries and no content, and all content and no entries, of what it
// may lose.
func (r playback) plainCrashes() map[int][]crash {
	chosen := map[int][]crash{}
	for k := range r.Ops {
		chosen[k] = []crash{
			{kill: true},
			{loss: power.Loss{Entries: power.All, Content: power.None}},
			{loss: power.Loss{Entries: power.None, Content: power.All}},
		}
	}
	return chosen
}

// TestCrashFindsBugs plays the states that a crash leaves of each mutant but
// not of the engine: the oracle must find one of them wrong.
func TestCrashFindsBugs(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestCrash, not the product")
	o := &oracle{t: t, image: crashImage(t), known: map[string]looks{}}
	all := mutants()

	for _, s := range scenarios() {
		of := slices.DeleteFunc(
			slices.Clone(all),
			func(m mutant) bool { return m.scenario != s.name },
		)
		if len(of) == 0 {
			continue
		}
		r := s.record(t, o.image)
		right := map[string]bool{}
		for _, p := range r.points(r.plainCrashes()) {
			right[p.key] = true
		}
		for _, m := range of {
			t.Run(m.name, func(t *testing.T) { r.find(t, o, m, right) })
		}
	}
}

func (r playback) find(t *testing.T, o *oracle, m mutant, right map[string]bool) {
	r.Ops = slices.Clone(r.Ops)
	m.mutate(r.Ops)
	wrong := slices.DeleteFunc(
		r.points(r.plainCrashes()),
		func(p point) bool { return right[p.key] },
	)
	for k, p := range wrong {
		if err := r.try(o, p); err != nil {
			t.Logf("found after %d of %d points: %.200v", k+1, len(wrong), err)
			return
		}
	}

	t.Errorf("not found in %d points", len(wrong))
}
