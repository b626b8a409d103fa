package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/hint"
)

// step is one step of an upgrade, with what it was decided on.
type step struct {
	u    *Upgrader
	esp  *disk.ESP
	view View
	op   Op
}

// do carries out the step. What it calls writes one thing: boot entries, the
// slot, or a record.
func (s step) do(ctx context.Context, from fill.Sources) error {
	j := s.view.Journal
	to := s.u.writers()
	switch s.op.Kind {
	case Drop, Relink, Rename, Park, Link, CopyUKI, Restore:
		return entryWriter{
			esp:     s.esp,
			journal: to.journal,
			drills:  to.drills,
			log:     s.u.Log,
		}.do(s.view, s.op)
	case Verify:
		return s.verify(to.slot)
	case Empty:
		return s.empty(to.slot)
	case Fill:
		err := s.fill(ctx, to.slot, s.fetcher(from))
		s.u.filled = err == nil
		return err
	case Seal:
		return s.seal(to.slot)
	case StageUKI:
		return s.stageUKI(ctx, s.fetcher(from))
	case Arm:
		return to.journal.arm(ctx, *j, s.u.Host)
	case Remember:
		return to.failures.recordTarget(ctx, *j, s.u.Host, s.op.Reason)
	case Crash:
		if err := s.u.Host.Panic(); err != nil {
			return err
		}
		return errors.New("the kernel has survived it")
	case Conclude:
		return to.drills.conclude(*j, s.op.Reason)
	case Finish:
		return s.finish(to)
	}

	return fmt.Errorf("%s: no such step", s.op.Kind)
}

// fetcher returns the fetcher of the target, which notifies the listener.
func (s step) fetcher(from fill.Sources) disk.Fetcher {
	f := disk.Fetcher{Sources: from}
	if s.u.Listener != nil {
		f.Progress = s.u.Listener.Progress
	}
	return f
}

// verify verifies a target that was in the slot before. If it is damaged, its
// entry goes, and the slot is filled again if there is an index.
func (s step) verify(slot disk.OtherSlot) error {
	target := s.view.Journal.Target.RootHash
	damage, err := slot.Verify(target)
	switch {
	case err != nil:
		return err
	case damage != nil:
		s.u.Log.Warn("the other slot is damaged", zap.Error(damage))
		return s.esp.Remove(find(s.view, target).Path())
	}

	s.u.filled = true
	return nil
}

// empty marks the slot as empty.
func (s step) empty(slot disk.OtherSlot) error {
	// If this failed when the running system proved itself, the recovery entry
	// still starts the system that is about to be emptied.
	s.renewRecovery()

	j := s.view.Journal
	j.Replaces = s.view.Holds
	if err := records.Save(s.u.Records, journalName, j); err != nil {
		return err
	}
	return slot.Empty()
}

// fill fills the slot with the target, as the index of the upgrade says.
func (s step) fill(ctx context.Context, slot disk.OtherSlot, from disk.Fetcher) error {
	idx, err := ReadIndex(s.u.Records)
	if err != nil {
		return err
	}

	j := s.view.Journal
	if idx.RootHash != j.Target.RootHash {
		return hint.With(
			fmt.Errorf("the index is about %.12s, the journal about %.12s",
				idx.RootHash, j.Target.RootHash),
			"ask for the upgrade again",
		)
	}

	return slot.Fill(ctx, idx, j.Replaces, from)
}

// seal marks the slot as holding the target. Nothing on the node needs the
// signature of its root hash, but systemd's tools do: a failure to read it says
// nothing against the target.
func (s step) seal(slot disk.OtherSlot) error {
	idx, err := ReadIndex(s.u.Records)
	if err != nil {
		s.u.Log.Warn("the signature of the root hash", zap.Error(err))
		idx.Signature = nil
	}

	target := s.view.Journal.Target
	label := s.u.Boot.ImageID + "_" + target.Version
	return slot.Seal(target.RootHash, label, idx.Signature)
}

// stageUKI writes the target's UKI to the ESP without an entry.
func (s step) stageUKI(ctx context.Context, from disk.Fetcher) error {
	idx, err := ReadIndex(s.u.Records)
	if err != nil {
		return err
	}

	file, err := s.u.Records.Scratch(idx.UKI.Size)
	if err != nil {
		return err
	}

	return errors.Join(from.UKI(ctx, file, s.esp, s.view.Entries, idx), file.Close())
}

// finish removes the records of the upgrade, whether it is done or abandoned.
func (s step) finish(to writers) error {
	j := s.view.Journal
	running := s.view.Running
	if running == j.Target && j.Drill == nil {
		// Best effort: a failure says nothing against the system.
		if err := s.renewLoader(); err != nil {
			s.u.Log.Warn("renew the boot loader", zap.Error(err))
		}
		s.renewRecovery()

		raiseErr := to.floor.raise(running.RootHash, j.Epoch, s.view.Holds)
		if err := errors.Join(raiseErr, to.failures.hold(*j)); err != nil {
			return err
		}
	}

	return to.journal.remove()
}

// renewLoader replaces an older boot loader with the running system's own, if it
// came with one.
func (s step) renewLoader() error {
	own, err := s.u.Host.Loader()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	return disk.Loader{
		ESP:  s.esp,
		Arch: s.u.Disk.Arch,
		Sys:  s.u.Sys,
		Log:  s.u.Log,
	}.Renew(own, find(s.view, s.view.Running.RootHash))
}

// renewRecovery makes the recovery entry start the running system. Best effort:
// the next upgrade tries it again.
func (s step) renewRecovery() {
	r := disk.Recovery{ESP: s.esp, Log: s.u.Log}
	if err := r.Renew(s.view.Running.RootHash, s.view.Entries); err != nil {
		s.u.Log.Warn("renew the recovery entry", zap.Error(err))
	}
}
