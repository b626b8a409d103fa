package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/printable"
)

// changes is the state machine of a change. A change begins with its journal,
// is activated by the flip, finished when its units have run, and concluded
// with its verdict. There are three ways back:
//
//   - abandon ends a change whose generation is not current, and abandonFlipped
//     a change after the flip whose units have not run yet. Neither leaves a
//     trace.
//   - rollback is a change of its own, to an earlier generation.
//   - revert takes a change back that is bad, by a rollback.
type changes struct {
	store      *generation.Store
	candidates candidates
	planner    Planner
	files      files
	units      units
	ledger     Ledger

	osVersion     string
	bootID        string
	now           func() time.Time
	uptime        func() time.Duration
	probes        probes
	steady, limit time.Duration

	watched *watched
}

// watched is the change that is finished and waits for its verdict.
type watched struct {
	// gate judges the units of the change. It is nil if no change is watched.
	gate *health.Gate
}

// cause is why the node goes back to an earlier generation.
type cause struct {
	reason string

	// unit is the unit that reason is about, empty if it is about no unit.
	unit string

	// operator is set if an operator asked: the generation that the node leaves
	// is then not at fault.
	operator bool

	// boots counts the boots that found the change to leave under way.
	boots int
}

const (
	// kept is the number of old generations that stay on disk.
	kept = 5

	// crowded is the number of generations above which tidy prunes without
	// waiting for a verdict.
	crowded = 16
)

// apply changes the node to the configuration of r. before is the journal of
// the change that it replaces before its verdict, or the zero Journal.
func (cs changes) apply(
	ctx context.Context, r Request, before generation.Journal,
) (generation.Manifest, error) {
	c, err := cs.planner.change(ctx, r)
	if err != nil {
		return generation.Manifest{}, err
	}

	j := cs.journal(ctx, c, before)
	if r.Try > 0 {
		if j.Good == "" {
			return generation.Manifest{}, ErrNothingBefore
		}
		j.Try = &generation.Try{
			Until:    cs.now().Add(r.Try).UTC().Truncate(time.Second),
			Deadline: cs.uptime() + r.Try,
		}
	}

	if err := cs.write(c); err != nil {
		return generation.Manifest{}, err
	}
	if err := cs.recordReplaced(before); err != nil {
		return generation.Manifest{}, err
	}

	return cs.activate(ctx, c, j)
}

// journal returns the journal of the new change c. before is the journal of the
// change that it replaces before its verdict, or the zero Journal.
func (cs changes) journal(
	ctx context.Context, c change, before generation.Journal,
) generation.Journal {
	j := generation.Journal{
		From:   c.have.Name(),
		To:     c.want.Name(),
		Good:   c.have.Name(),
		BootID: cs.bootID,
		Began:  cs.now().UTC().Truncate(time.Second),
		Uptime: cs.uptime(),
	}
	j.Well, j.Broken = health.Before(c.have, c.states, cs.uptime())
	if before.To == "" {
		j.Answered = cs.probes.answering(ctx, c.have.Units)
	} else {
		j.Good = before.Good
		j.Answered = before.Answered
		j.Well = wellBefore(before, c.have, j.Well)
		j.Broken = before.Broken
	}
	return j
}

// wellBefore returns the units that were well when the last good generation was
// replaced. before is the journal of the change to have, which replaced it and
// has no verdict yet, and well are the units that are well under have. For the
// units in have, before already has the answer. Other units, such as those of
// the image, count as they are now, because nothing shows that they were down.
func wellBefore(before generation.Journal, have generation.Manifest, well []string) []string {
	all := slices.Clone(before.Well)
	for _, name := range well {
		listed := slices.ContainsFunc(have.Units, func(u generation.Unit) bool {
			return u.Name == name
		})
		if !listed && !slices.Contains(all, name) && !slices.Contains(before.Broken, name) {
			all = append(all, name)
		}
	}
	return all
}

// write stores the generation of c. If the disk is full, it prunes old
// generations and tries once more.
func (cs changes) write(c change) error {
	err := cs.store.Write(c.want, c.content)
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}

	if pruneErr := cs.prune(); pruneErr != nil {
		return errors.Join(err, pruneErr)
	}
	return cs.store.Write(c.want, c.content)
}

// activate makes c.want the current generation and then changes the node
// accordingly. The store must have c.want already.
func (cs changes) activate(
	ctx context.Context, c change, j generation.Journal,
) (generation.Manifest, error) {
	if err := cs.begin(j); err != nil {
		return generation.Manifest{}, errors.Join(err, cs.discard(j))
	}

	cs.watched.gate = nil
	err := cs.store.Activate(cs.osVersion, c.want.Name())
	if err == nil {
		err = cs.files.place(c, stopOf(j))
	}

	switch {
	case err == nil:
		return c.want, cs.finish(ctx, c, j)
	case j.Direction() == generation.Revert:
		return generation.Manifest{}, unfinished(err) // A revert has no other way to go.
	}

	return generation.Manifest{}, errors.Join(err, cs.abandonFlipped(c, j))
}

// begin writes the progress and the journal before anything on the node
// changes.
func (cs changes) begin(j generation.Journal) error {
	if _, err := cs.files.linkCurrent(); err != nil {
		return err
	}
	if err := cs.units.writeProgress(progress{To: j.To, BootID: cs.bootID}); err != nil {
		return err
	}
	return cs.store.WriteJournal(j)
}

// finish runs the units once the files are in place. A revert is then
// concluded; any other change is watched until its verdict.
func (cs changes) finish(ctx context.Context, c change, j generation.Journal) error {
	if c.plan.Reload {
		if err := cs.units.systemd.Reload(ctx); err != nil {
			return unfinished(err)
		}
	}

	failed, hung := cs.units.run(ctx, c.plan.Units, j)
	if err := ctx.Err(); err != nil {
		return errors.Join(joined(failed), unfinished(err)) // Cut off, so the journal stays.
	}
	if err := cs.units.owed.add(j.To, failed); err != nil {
		return errors.Join(joined(failed), unfinished(err))
	}

	if err := cs.units.finish(j); err != nil {
		failed[""] = err
	}

	if j.Direction() == generation.Revert {
		return errors.Join(joined(failed), unfinished(cs.concludeRevert(j)))
	}

	cs.watch(c.want, j, failed, hung)
	return joined(failed)
}

// abandonFlipped goes back to the generation that the change began with, before
// any unit has seen the new one. If it cannot, the journal stays and the next
// start tries again.
func (cs changes) abandonFlipped(c change, j generation.Journal) error {
	flip := func() error {
		if c.have.Name() == "" {
			return cs.store.Deactivate(cs.osVersion)
		}
		return cs.store.Activate(cs.osVersion, c.have.Name())
	}
	if err := flip(); err != nil {
		return fmt.Errorf("go back: %w: %w", ErrUnfinished, err)
	}

	if err := cs.files.placeAll(c.want, c.have, Transient); err != nil {
		return fmt.Errorf("go back: %w: %w", ErrUnfinished, err)
	}
	if err := cs.store.RemoveJournal(); err != nil {
		return unfinished(err)
	}
	return cs.discard(j)
}

// discard deletes the generation of an abandoned change, unless the node had it
// before.
func (cs changes) discard(j generation.Journal) error {
	if j.Existed || j.Direction() == generation.Revert {
		return nil
	}
	return cs.store.Delete(j.To)
}

// watch begins to watch the units of a new generation. failed and hung are the
// results of their jobs.
func (cs changes) watch(
	want generation.Manifest,
	j generation.Journal,
	failed map[string]error,
	hung map[string]time.Duration,
) {
	cs.watched.gate = &health.Gate{
		Want:     want,
		Well:     j.Well,
		Broken:   j.Broken,
		Answered: j.Answered,
		Failed:   failed,
		Hung:     hung,
		Since:    cs.uptime(),
		Steady:   cs.steady,
		Limit:    cs.limit,
	}
}

// accept ends a change that stays. reason lists the units that are not well but
// were not well before either.
func (cs changes) accept(j generation.Journal, reason string) (generation.Manifest, error) {
	// An earlier try may have left it held.
	if err := cs.ledger.Release(digestOf(j.To)); err != nil {
		return generation.Manifest{}, unfinished(err)
	}
	if err := cs.conclude(j, Applied, reason); err != nil {
		return generation.Manifest{}, unfinished(err)
	}
	m, err := cs.store.Load(j.To)
	return m, unfinished(errors.Join(err, cs.store.Prune(kept)))
}

// revert takes a bad change back. If there is no generation to go back to, or
// it cannot be read any more, the change stays, and the history says so.
func (cs changes) revert(
	ctx context.Context, j generation.Journal, v health.Verdict,
) (generation.Manifest, error) {
	have, err := cs.store.Load(j.To)
	if err != nil {
		return generation.Manifest{}, unfinished(err)
	}

	good, err := cs.candidates.load(j.Good)
	if err != nil {
		return generation.Manifest{}, unfinished(err)
	}
	if good.Name() == "" {
		return have, unfinished(cs.conclude(j, Failed, v.Reason))
	}

	m, err := cs.rollback(ctx, have, good, cause{reason: v.Reason, unit: v.Unit, boots: j.Boots})
	if m.Name() == "" {
		err = unfinished(err) // The node is still to go back.
	}

	return m, err
}

// rollback is a change from have to an earlier generation. If it fails before
// it begins, it returns the zero Manifest and an error that is not
// ErrUnfinished.
func (cs changes) rollback(
	ctx context.Context, have, want generation.Manifest, because cause,
) (generation.Manifest, error) {
	c, err := cs.planner.between(ctx, have, want)
	if err != nil {
		return generation.Manifest{}, err
	}

	return cs.activate(ctx, c, generation.Journal{
		From:     have.Name(),
		To:       want.Name(),
		Good:     want.Name(),
		Back:     because.reason,
		Unit:     because.unit,
		BootID:   cs.bootID,
		Began:    cs.now().UTC().Truncate(time.Second),
		Uptime:   cs.uptime(),
		Boots:    because.boots,
		Operator: because.operator,
	})
}

// concludeRevert ends a revert. It holds the configuration that the node has
// left, and releases the configuration that the node runs.
func (cs changes) concludeRevert(j generation.Journal) error {
	if err := cs.ledger.Release(digestOf(j.To)); err != nil {
		return err
	}
	if j.From != "" && digestOf(j.From) != digestOf(j.To) {
		err := cs.ledger.Hold(Held{
			Digest:     digestOf(j.From),
			Generation: j.From,
			Why:        j.Back,
			Unit:       j.Unit,
			Operator:   j.Operator,
		})
		if err != nil {
			return err
		}
	}

	return cs.conclude(j, Reverted, j.Back)
}

// conclude records the outcome of a change and removes its journal.
func (cs changes) conclude(j generation.Journal, outcome Outcome, reason string) error {
	if err := cs.record(j, outcome, reason); err != nil {
		return err
	}
	cs.watched.gate = nil
	return cs.store.RemoveJournal()
}

// recordReplaced adds to the history that the next change has replaced j before
// its verdict. The zero Journal says that there was no such change.
func (cs changes) recordReplaced(j generation.Journal) error {
	if j.To == "" {
		return nil
	}
	return cs.record(j, Replaced, "")
}

// record adds to the history what became of the change j.
func (cs changes) record(j generation.Journal, outcome Outcome, reason string) error {
	r := Record{
		At:         j.Began,
		Took:       cs.took(j).Round(time.Millisecond),
		From:       j.From,
		Generation: j.To,
		OSVersion:  cs.osVersion,
		Outcome:    outcome,
		Operator:   j.Operator && outcome == Reverted,
		Reason:     printable.Message(reason, printable.Most),
	}
	if m, err := cs.store.Load(j.To); err == nil {
		r.Source = m.Source
	}
	return cs.ledger.Add(r)
}

// took returns how long the change j has taken. After a restart only the wall
// clock knows, and it may have been set meanwhile.
func (cs changes) took(j generation.Journal) time.Duration {
	uptime := cs.uptime()
	if j.BootID == cs.bootID && j.Uptime > 0 && j.OnClockOf(uptime) {
		return uptime - j.Uptime
	}
	return max(0, cs.now().Sub(j.Began))
}

// prune deletes generations that are no longer needed: old ones, and those left
// by changes that were replaced or reverted.
func (cs changes) prune() error {
	j, _, err := cs.store.Journal()
	if err != nil {
		return err
	}
	return cs.store.Prune(kept, j.Good, j.From)
}

// tidy prunes generations if there are many.
func (cs changes) tidy() error {
	n, err := cs.store.Len()
	if err != nil || n <= crowded {
		return err
	}
	return cs.prune()
}
