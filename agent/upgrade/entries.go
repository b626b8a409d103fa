package upgrade

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
)

// entryWriter makes, renames and removes the boot entries on the ESP. What the
// loader does with an entry follows from its name, so the counts of tries in the
// journal are written before the name.
type entryWriter struct {
	esp     *disk.ESP
	journal journalKeeper
	drills  drillKeeper
	log     *zap.Logger
}

// do carries out a step that is about an entry.
func (w entryWriter) do(v View, op Op) error {
	switch op.Kind {
	case Drop:
		return w.esp.Remove(bootentry.Dir + "/" + op.File)
	case Relink:
		if err := w.journal.resetMissed(v.Journal); err != nil {
			return err
		}
		return bootdir.AddName(w.esp.FS, op.File, op.To)
	case Rename:
		if err := w.drills.rename(v.Journal, op.To); err != nil {
			return err
		}
		return w.esp.Rename(bootentry.Dir, op.File, op.To, false)
	case Park: // The loader would count the tries of a parked entry, too, in two sectors.
		if err := w.journal.resetMissed(v.Journal); err != nil {
			return err
		}
		return w.esp.Rename(bootentry.Dir, op.File, op.To, true)
	case CopyUKI:
		return w.esp.StageCopy(find(v, v.Running.RootHash))
	case Link: // From now on the loader starts the target.
		j := *v.Journal
		err := errors.Join(w.journal.resetMissed(&j), w.drills.rename(&j, op.To))
		if err != nil {
			return err
		}
		return w.esp.LinkStaged(op.To)
	case Restore:
		return disk.Recovery{ESP: w.esp, Log: w.log}.Restore(v.Running.RootHash, op.To)
	}

	return fmt.Errorf("%s: no step of a boot entry", op.Kind)
}
