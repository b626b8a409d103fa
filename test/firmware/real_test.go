package firmware

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// started is one start of a real machine: which program, how many sectors of
// \EFI\Linux changed, and the entries after it.
type started struct {
	Code    byte
	Sectors int
	Entries []string
}

// start starts the machine for real and by the model, on the same disk, and
// compares all that is on it then.
func start(t *testing.T, m *machine) started {
	t.Helper()
	s, _ := record(t, m)
	return s
}

// record is start with what the machine asked of its disk.
func record(t *testing.T, m *machine) (started, []Request) {
	t.Helper()
	before := m.disk
	model := NewRecorder(m.disk)
	boot(t, model)

	code, requests := m.start()
	if diff := cmp.Diff(modelled(model), asked(requests)); diff != "" {
		t.Errorf("the machine writes other sectors: %s", diff)
	}

	if diff := cmp.Diff(untimed(t, model.Flat()), untimed(t, m.disk)); diff != "" {
		t.Errorf("the disk is not as the model has it: %s", diff)
	}

	l, d := look(t, m.disk)
	return started{
		Code:    code,
		Sectors: changed(t, l, d, before, m.disk),
		Entries: m.entries(),
	}, requests
}

// entries are the names that the loader sees, in its order.
func (m *machine) entries() (all []string) {
	m.t.Helper()
	_, d := look(m.t, m.disk)
	for _, e := range d.shown() {
		all = append(all, e.Name)
	}
	return all
}

// flush stands for one among sectors that are written.
const flush = -1

// modelled is what the model wrote.
func modelled(r *Recorder) (sectors []int64) {
	for _, epoch := range r.Epochs {
		for _, w := range epoch {
			sectors = append(sectors, w.Sector)
		}
		sectors = append(sectors, flush)
	}
	return sectors
}

// asked is what a machine wrote.
func asked(requests []Request) (sectors []int64) {
	for _, q := range requests {
		for n := range int64(len(q.Data) / SectorSize) {
			sectors = append(sectors, q.Sector+n)
		}
		if q.Flush {
			sectors = append(sectors, flush)
		}
	}
	return sectors
}

// look reads a disk's ESP.
func look(t testing.TB, disk Sectors) (Loader, directory) {
	t.Helper()
	l, err := Open(NewMemory(disk), espStart)
	if err != nil {
		t.Fatal(err)
	}

	d, err := l.bootDir()
	if err != nil {
		t.Fatal(err)
	}

	return l, d
}

// untimed is a disk without the times of \EFI and \EFI\Linux: the model's clock
// stands still during a start.
func untimed(t *testing.T, disk Sectors) Sectors {
	t.Helper()
	m := NewMemory(disk)
	_, d := look(t, disk)
	for _, s := range d.way {
		if _, err := m.WriteAt([]byte{0, 0}, s.at+22); err != nil {
			t.Fatal(err)
		}
	}

	return m.Flat()
}

// changed is how many sectors of \EFI\Linux a start changed. It may change no
// others, but those with the directories' own entries.
func changed(t testing.TB, l Loader, d directory, before, after Sectors) (n int) {
	t.Helper()
	clusters, err := l.chain(d.first)
	if err != nil {
		t.Fatal(err)
	}

	for at, b := range after {
		off := at * SectorSize
		switch {
		case equal(b, before[at]):
		case slices.ContainsFunc(clusters, func(c int64) bool {
			return off >= c && off < c+l.cluster
		}):
			n++
		case !slices.ContainsFunc(d.way, func(s slot) bool { return s.at/SectorSize == at }):
			t.Errorf("sector %d of the disk changes; the data start at %d", at, l.data/SectorSize)
		}
	}

	return n
}

// play does the requests on a disk.
func play(d *Recorder, all []Request) error {
	for _, r := range all {
		if r.Flush {
			if err := d.Sync(); err != nil {
				return err
			}
		}
		if _, err := d.WriteAt(r.Data, r.Sector*SectorSize); err != nil {
			return err
		}
	}
	return nil
}
