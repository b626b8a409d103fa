package upgrade_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// survives returns an error unless a crash state is right: all entries that the
// loader shows are valid systems, and it starts one of them. If the system on
// trial never comes up, the proven system starts within the tries.
func (p fixture) survives(disk firmware.Disk, files map[string][]byte) error {
	j, err := upgrade.ReadJournal(recordedFiles(files))
	if err != nil {
		return err
	}

	if err := errors.Join(p.separate(disk), p.spare(disk)); err != nil {
		return err
	}

	for i := 0; ; i++ {
		runs, err := p.boot(disk)
		switch {
		case err != nil:
			return fmt.Errorf("boot %d: %w", i, err)
		case (j != nil && runs == j.From) || p.blessed(disk, runs):
			return nil
		case j == nil || runs != j.Target:
			return fmt.Errorf("boot %d starts %s, which no operator asked for", i, runs.Version)
		case i > upgrade.Tries:
			return fmt.Errorf("after %d boots that fail it is still %s", i+1, runs.Version)
		}
	}
}

// spare checks what starts besides the entries: the loader is one that the test
// made, and the recovery entry starts a valid system.
func (p fixture) spare(disk firmware.Disk) error {
	l, err := firmware.Open(disk, p.table.Partitions[0].Start)
	if err != nil {
		return err
	}

	content, err := l.File(loader.Path(arch))
	if err != nil {
		return err
	}

	if version, err := loader.Version(bytes.NewReader(content)); err != nil ||
		!bytes.Equal(content, firmware.SystemdBoot(version)) {
		return fmt.Errorf("the loader is torn: %v", err)
	}

	content, err = l.File(loader.RecoveryUKI)
	if err != nil {
		return err
	}

	table, err := gpt.Read(disk, p.table.DiskSize, sector)
	if err != nil {
		return err
	}

	r, err := p.releaseOf(content)
	if err == nil {
		_, err = start(disk, r, table)
	}

	if err != nil {
		return fmt.Errorf("the recovery entry: %w", err)
	}

	return nil
}

// separate makes sure that no cluster of an entry is anything else's.
func (p fixture) separate(disk firmware.Disk) error {
	l, err := firmware.Open(disk, p.table.Partitions[0].Start)
	if err != nil {
		return err
	}

	all, err := l.Entries()
	for _, e := range all {
		if err == nil && !e.Orphan {
			err = p.own(l, e)
		}
	}

	return err
}

// own makes sure that an entry has the content of the release that it is named
// for.
func (p fixture) own(l firmware.Loader, e firmware.Entry) error {
	content, err := l.Read(e)
	if err != nil {
		return err
	}

	r, err := p.releaseOf(content)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	if !strings.HasPrefix(e.Name, imageID+"_"+r.Version+"_") {
		return fmt.Errorf("%s has the content of %s", e.Name, r.Version)
	}

	return nil
}

// within checks that only the partition tables, the ESP and slots were written,
// but not the state partition.
func (p fixture) within(events []event) error {
	for _, e := range events {
		for _, w := range e.writes {
			at := w.Sector * sector
			i := slices.IndexFunc(p.table.Partitions, func(p gpt.Partition) bool {
				return p.Start <= at && at < p.End()
			})
			if (i < 0 && at >= gpt.Alignment && at < p.table.DiskSize-gpt.Alignment) ||
				i == len(p.table.Partitions)-1 {
				return fmt.Errorf("sector %d is written, of partition %d", w.Sector, i+1)
			}
		}
	}
	return nil
}

// blessed reports whether a system has an entry that does not count.
func (p fixture) blessed(disk firmware.Disk, s upgrade.System) bool {
	l, err := firmware.Open(disk, p.table.Partitions[0].Start)
	if err != nil {
		return false
	}
	all, err := l.Entries()
	return err == nil && slices.ContainsFunc(all, func(e firmware.Entry) bool {
		return e.Name == imageID+"_"+s.Version+"_x86-64.efi"
	})
}

// finishes goes on from a crash state with a target that is good or not, until
// nothing is left to do, and checks that this is as it should be. It returns
// what was done.
func (p fixture) finishes(t testing.TB, m crashState, good bool) ([]event, error) {
	r := newRecorder(m.disk.Flat(), m.files)
	j, err := upgrade.ReadJournal(r)
	if err != nil {
		return nil, err
	}

	verdict := upgrade.Verdict{Word: upgrade.Bad, Reason: "ill"}
	if good {
		verdict.Word = upgrade.Good
	}

	for i := range 3*upgrade.Tries + 6 {
		runs, err := p.boot(r.Recorder)
		if err != nil {
			return r.events, err
		}

		_ = r.Sync()
		u := p.upgrader(r, runs)
		u.Boot.ID = fmt.Sprint(m.sum, i)
		v := verdict
		switch {
		case j != nil && j.Drill != nil:
			v.Word = upgrade.Bad
		case j == nil || runs != j.Target:
			v.Word = upgrade.Good
		}

		op, err := u.Run(t.Context(), v, packOnly(noPackFor(p, r)))
		if errors.Is(err, errPanics) {
			continue
		}

		if err != nil {
			return r.events, fmt.Errorf("%s runs, %s: %w", runs.Version, op.Kind, err)
		}
		if op.Kind == upgrade.Nothing {
			return r.events, p.clean(r, j, runs, good)
		}
	}

	return r.events, errors.New("it does not come to an end")
}

// clean checks a machine that has nothing left to do.
func (p fixture) clean(r *recorder, j *upgrade.Journal, runs upgrade.System, good bool) error {
	err := p.onESP(r, func(files *fat.FS) error {
		if err := files.Reclaim(); err != nil {
			return err
		}
		if report := files.Check(); !report.Clean() {
			return fmt.Errorf("the ESP is not clean: %+v", report)
		}
		return nil
	})
	if err != nil {
		return err
	}

	failed, err := upgrade.Failures(r)
	if err != nil {
		return err
	}

	left, err := upgrade.ReadJournal(r)
	switch {
	case err != nil:
		return err
	case left != nil:
		return fmt.Errorf("the journal stays: %+v", left)
	case j == nil:
		return nil
	case j.Drill != nil:
		if d, err := upgrade.LastDrill(r); err != nil || d == nil {
			return fmt.Errorf("no record says how the drill went: %v", err)
		}
		if runs != j.Target {
			return fmt.Errorf("a drill of %s ends with %s", j.Target.Version, runs.Version)
		}
		return nil
	case j.Canceled:
		if runs != j.From {
			return fmt.Errorf("%s was canceled, and runs", runs.Version)
		}
		return nil
	}

	remembered := slices.ContainsFunc(failed, func(f upgrade.Failure) bool {
		return f.RootHash == j.Target.RootHash
	})

	switch {
	case good && runs != j.Target && !remembered:
		return fmt.Errorf("%s is good, and %s runs", j.Target.Version, runs.Version)
	case !good && runs == j.Target && !remembered:
		return nil // It was blessed before the cut.
	case !good && runs != j.Target && !remembered:
		return fmt.Errorf("%s has failed, and no record says so", j.Target.Version)
	}

	return nil
}
