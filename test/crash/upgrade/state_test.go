package upgrade_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/test/firmware"
)

// crashState is the machine after a power cut: its disk, and the files of its
// state partition.
type crashState struct {
	disk  firmware.Memory
	files map[string][]byte

	// sum is the sum of both, without what differs in each boot: equal moments
	// have equal sums.
	sum uint64
}

// beginning is a machine with a disk, and no files.
func beginning(disk firmware.Sectors) crashState {
	m := crashState{disk: firmware.NewMemory(disk), files: map[string][]byte{}}
	for n, b := range disk {
		m.sum += summed(strconv.FormatInt(n, 10), b)
	}
	return m
}

// summed returns a term of the sum of a crash state, 0 for zeros.
func summed(name string, data []byte) uint64 {
	if len(bytes.Trim(data, "\x00")) == 0 {
		return 0
	}
	h := sha256.Sum256(append([]byte(name+" "), data...))
	return binary.LittleEndian.Uint64(h[:])
}

// summedFile leaves the kernel's id of a boot out.
func summedFile(name string, data []byte) uint64 {
	j, err := upgrade.ReadJournal(recordedFiles{journalFile: data})
	if name == journalFile && err == nil && j != nil {
		j.Boot = ""
		data = fmt.Appendf(nil, "%+v %+v", *j, j.Drill)
	}
	return summed(name, data)
}

// cut is the disk of the crash state, to be changed.
func (m crashState) cut() firmware.Memory {
	return firmware.Memory{Base: m.disk.Base, Over: maps.Clone(m.disk.Over)}
}

// flat is the crash state with a disk of its own.
func (m crashState) flat() crashState {
	m.disk = firmware.NewMemory(m.disk.Flat())
	return m
}

// recordedFiles reads files.
type recordedFiles map[string][]byte

func (k recordedFiles) Read(name string) ([]byte, error) { return (&recorder{files: k}).Read(name) }
func (recordedFiles) Write(string, []byte) error         { return errors.New("read only") }
func (recordedFiles) Remove(string) error                { return errors.New("read only") }

// stretch is what was made durable from a crash state on.
type stretch struct {
	from   crashState
	events []event
}

// each calls do for every flush with what was written before it, and for every
// file.
func (s stretch) each(do func(e *epoch)) {
	now := s.from.flat()
	for _, e := range s.events {
		if e.file == "" {
			all := newEpoch(now, e.writes)
			do(all)
			now = all.with(firmware.Last(e.writes)).flat()
			continue
		}

		now.sum += summedFile(e.file, e.data) - summedFile(e.file, now.files[e.file])
		now.files = maps.Clone(now.files)
		now.files[e.file] = e.data

		if e.data == nil {
			delete(now.files, e.file)
		}

		do(newEpoch(now, nil))
	}

	do(newEpoch(now, nil))
}

// epoch is what was written up to a flush, over what was there.
type epoch struct {
	base   crashState
	writes []firmware.Written
	// sums are what a write adds to the base's sum.
	sums map[*byte]uint64
	// views are what was seen of it.
	views []view
}

func newEpoch(base crashState, writes []firmware.Written) *epoch {
	e := &epoch{base: base, writes: writes, sums: map[*byte]uint64{}}
	for _, w := range writes {
		name := strconv.FormatInt(w.Sector, 10)
		e.sums[&w.Data[0]] = summed(name, w.Data) - summed(name, base.disk.Sector(w.Sector))
	}
	return e
}

// with is the crash state in which the disk has kept these sectors.
func (e *epoch) with(kept firmware.Sectors) crashState {
	m := e.base
	m.disk = firmware.Memory{Base: m.disk.Base, Over: kept}
	for _, b := range kept {
		m.sum += e.sums[&b[0]]
	}
	return m
}

// view is what a reader has read of an epoch's sectors, and the result.
type view struct {
	read firmware.Sectors
	err  error
}

// see is what do says of a crash state of the epoch. What reads the same says
// the same.
func (e *epoch) see(m crashState, do func(disk firmware.Disk) error) error {
	for _, v := range e.views {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(v.read)), func(n int64) bool {
			return !bytes.Equal(m.disk.Sector(n), v.read[n])
		}) {
			return v.err
		}
	}

	w := watched{
		Memory: m.cut(),
		epoch:  firmware.Last(e.writes),
		read:   firmware.Sectors{},
		as:     m.disk,
	}

	err := do(w)
	e.views = append(e.views, view{w.read, err})
	return err
}

// watched is a disk that notes what of an epoch is read, as it was before it is
// changed.
type watched struct {
	firmware.Memory
	epoch, read firmware.Sectors
	as          firmware.Memory
}

func (w watched) ReadAt(p []byte, off int64) (int, error) {
	for n := off / sector; n*sector < off+int64(len(p)); n++ {
		if _, of := w.epoch[n]; of {
			w.read[n] = w.as.Sector(n)
		}
	}
	return w.Memory.ReadAt(p, off)
}
