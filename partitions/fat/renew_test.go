package fat

import (
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/loam-os/loam/firmware/bootentry"
)

func TestPowerCutsOfANewBootDirectory(t *testing.T) {
	c := &crash{seed: maphash.MakeSeed(), random: rand.New(rand.NewPCG(1, 1)), report: t.Errorf}
	disk := c.play(small(t, built(t), false), step{"renew", renew}, 0)
	f, err := open(disk, testSize, 512, 0, bootDir)
	if err != nil {
		t.Fatal(err)
	}

	if err := f.Reclaim(); err != nil {
		t.Fatal(err)
	}

	room, err := f.RoomLast(bootentry.Dir)
	if r := f.Check(); !r.Clean() || r.Places != 511 || err != nil || room != 127 {
		t.Errorf("%+v, room for %d, %v", r, room, err)
	}

	t.Logf("%d states", c.states.Load())
}

func TestABootDirectoryThatCannotBeReadIsMadeAgain(t *testing.T) {
	disk := built(t)
	f := opened(t, disk)
	d, err := f.directory(bootentry.Dir)
	if err != nil {
		t.Fatal(err)
	}

	for n := range int64(2) {
		_, err := disk.WriteAt(binary.LittleEndian.AppendUint32(nil, 0),
			f.fatAt(n)+4*int64(d.first))
		if err != nil {
			t.Fatal(err)
		}
	}

	f = opened(t, disk)
	if _, err := f.ReadDir(bootentry.Dir); err == nil {
		t.Fatal("it can be read")
	}
	if err := renew(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Reclaim(); err != nil {
		t.Fatal(err)
	}

	if r := f.Check(); !r.Clean() {
		t.Errorf("%+v", r)
	}
	if err := put(bootentry.Dir, newUKI, []byte("new"))(f); err != nil {
		t.Error(err)
	}
}
