package upgrade_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/service"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

// espDamage overwrites sectors of an ESP.
type espDamage struct {
	seed    uint64
	part    string
	way     string
	sectors []int64
}

func (d espDamage) String() string {
	return fmt.Sprintf("seed %d: %s in sectors %d of %s", d.seed, d.way, d.sectors, d.part)
}

// espParts are the sectors of an ESP with something in them, by what they are.
func (c *course) espParts() map[string][]int64 {
	c.t.Helper()
	part := c.table.Partitions[0]
	head := make([]byte, 64)
	if _, err := c.ReadAt(head, part.Start); err != nil {
		c.t.Fatal(err)
	}

	le := binary.LittleEndian
	fat1 := part.Start/sector + int64(le.Uint16(head[14:]))
	perFAT := int64(le.Uint32(head[36:]))
	var contents [][]byte
	for _, r := range c.releases {
		contents = append(contents, r.uki)
	}
	for _, version := range loaders {
		contents = append(contents, firmware.SystemdBoot(version))
	}

	parts := map[string][]int64{}
	for _, n := range slices.Sorted(maps.Keys(c.Flat())) {
		data := c.Sector(n)
		name := "directories"
		switch {
		case n*sector < part.Start || n*sector >= part.End() || len(bytes.Trim(data, "\x00")) == 0:
			continue
		case n < fat1:
			name = "boot sectors"
		case n < fat1+perFAT:
			name = "FAT 1"
		case n < fat1+2*perFAT:
			name = "FAT 2"
		case slices.ContainsFunc(contents, func(b []byte) bool {
			return bytes.Contains(b, bytes.TrimRight(data, "\x00"))
		}):
			name = "programs"
		}
		parts[name] = append(parts[name], n)
	}
	return parts
}

// newESPDamage returns the damage of a seed.
func newESPDamage(parts map[string][]int64, seed uint64) espDamage {
	r := rand.New(rand.NewPCG(seed, 21))
	names := slices.Sorted(maps.Keys(parts))
	d := espDamage{
		seed: seed,
		part: names[r.IntN(len(names))],
		way:  []string{"flipped bits", "zeros", "garbage", "another sector"}[r.IntN(4)],
	}
	all := slices.Clone(parts[d.part])
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	d.sectors = all[:min(len(all), 1+r.IntN(3))]
	return d
}

// do damages a disk.
func (d espDamage) do(disk firmware.Disk, all []int64) error {
	r := rand.New(rand.NewPCG(d.seed, 22))
	for _, n := range d.sectors {
		b := make([]byte, sector)
		from := n
		if d.way == "another sector" {
			from = all[r.IntN(len(all))]
		}
		if _, err := disk.ReadAt(b, from*sector); err != nil {
			return err
		}
		switch d.way {
		case "flipped bits":
			for range 1 + r.IntN(8) {
				b[r.IntN(sector)] ^= 1 << r.IntN(8)
			}
		case "zeros":
			clear(b)
		case "garbage":
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		}
		if _, err := disk.WriteAt(b, n*sector); err != nil {
			return err
		}
	}
	return nil
}

// whole returns why a machine does not start the running system from an ESP on
// which nothing is damaged.
func (c *course) whole() error {
	runs, err := c.fixture.boot(c.Recorder)
	if err == nil && runs != c.running {
		err = fmt.Errorf("%s starts", runs.Version)
	}
	err = errors.Join(err, c.spare(c.Recorder))
	if !c.hasSlash() {
		err = errors.Join(err, c.separate(c.Recorder))
	}
	return err
}

// hasSlash reports whether a boot entry has a name to which no path leads: such
// an entry stays, and comes after all others.
func (c *course) hasSlash() bool {
	l, err := firmware.Open(c.Recorder, c.table.Partitions[0].Start)
	if err != nil {
		return false
	}
	all, err := l.Entries()
	return err == nil && slices.ContainsFunc(all, func(e firmware.Entry) bool {
		return strings.Contains(e.Name, "/")
	})
}

// TestDamagesOfTheESP damages the ESP of a machine that runs. What is damaged
// afterwards is said.
func TestDamagesOfTheESP(t *testing.T) {
	count := judge.Pick(200, 1000)
	if n, err := strconv.Atoi(os.Getenv("LOAM_DAMAGES")); err == nil {
		count = n
	}

	c := newCourse(t, "1.0.0", "2.0.0")
	if _, err := c.u.CheckESP(); err != nil {
		t.Fatal(err)
	}
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	c.boot()
	if r, err := c.u.CheckESP(); err != nil || len(r.Repaired)+len(r.Left) > 0 {
		t.Fatalf("what is not damaged: %+v, %v", r, err)
	}

	parts := c.espParts()
	disk := c.Flat()
	repaired, left, harmless := map[string]int{}, map[string]int{}, 0
	for seed := range uint64(count) {
		d := newESPDamage(parts, seed)
		n := c.fixture.course(t, disk)
		n.recorder = newRecorder(disk, maps.Clone(c.files))
		if err := d.do(n.Recorder, parts[d.part]); err != nil {
			t.Fatal(err)
		}
		n.runs(c.running)

		r, err := n.u.CheckESP()
		if err != nil {
			r.Left = append(r.Left, err.Error())
		}
		_, runErr := n.u.Run(t.Context(), upgrade.Verdict{}, packOnly(noPack{}))
		again, err := n.u.CheckESP()
		if err == nil && len(again.Repaired) > 0 && len(r.Left) == 0 {
			t.Errorf("%v: repaired %q, and again %q, %v", d, r, again.Repaired, runErr)
		}

		wrong := n.whole()
		switch {
		case wrong != nil && len(r.Left) == 0:
			t.Errorf("%v: not said: %v; repaired %q", d, wrong, r.Repaired)
		case wrong != nil:
			left[d.part]++
		case runErr != nil && len(r.Left) == 0:
			t.Errorf("%v: %v", d, runErr)
		case len(r.Repaired) > 0:
			repaired[d.part]++
		default:
			harmless++
		}
	}
	t.Logf("%d damages: repaired %v, said %v, %d without effect", count, repaired, left, harmless)
}

// aging is a machine whose uptime grows, and which keeps its Events.
type aging struct {
	machine
	since  time.Time
	events []string
}

func (m *aging) Uptime() time.Duration { return time.Since(m.since) }

func (m *aging) Event(_ bool, reason, _ string) { m.events = append(m.events, reason) }

func TestTheESPIsCheckedEachDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(t, "1.0.0", "2.0.0")
		m := &aging{since: time.Now()}
		records := &unreadable{Records: c.u.Records}
		c.u.Records = records
		s := service.New(&service.Service{
			Upgrader: c.u,
			Machine:  m,
			Trial:    &upgrade.Trial{Limit: time.Hour},
			Log:      zap.NewNop(),
		})

		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		defer func() {
			cancel()
			synctest.Wait()
		}()

		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if len(m.events) > 0 {
			t.Errorf("Events %q of an ESP that is not damaged", m.events)
		}

		want := c.fileOnESP(loader.RecoveryUKI)
		c.onESP(func(files *fat.FS) error {
			return files.WriteFile(loader.RecoveryUKI, bytes.Repeat([]byte{1}, len(want)))
		})
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if !slices.Equal(m.events, []string{"ESPRepaired"}) ||
			!bytes.Equal(c.fileOnESP(loader.RecoveryUKI), want) {
			t.Errorf("Events %q", m.events)
		}

		c.onESP(func(files *fat.FS) error {
			entry := bootentry.Dir + "/" + imageID + "_1.0.0_x86-64.efi"
			return errors.Join(files.WriteFile(loader.RecoveryUKI, []byte("MZ")),
				files.WriteFile(entry, append([]byte{1}, want...)))
		})
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if !slices.Contains(m.events, "ESPDamaged") || len(s.State().Damage) != 1 {
			t.Errorf("Events %q, status %q", m.events, s.State().Damage)
		}

		records.failing.Store(true)
		c.onESP(func(files *fat.FS) error { return files.Remove(loader.RecoveryUKI) })
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if d := s.State().Damage; len(d) != 1 || !strings.Contains(d[0], errUnreadable.Error()) {
			t.Errorf("the status of an ESP that cannot be checked: %q", d)
		}
	})
}

// TestARepairThatFailsIsSaid has no room on the ESP for the content of the recovery
// entry.
func TestARepairThatFailsIsSaid(t *testing.T) {
	c := newCourse(t, "1.0.0")
	if _, err := c.u.CheckESP(); err != nil {
		t.Fatal(err)
	}
	size := len(c.fileOnESP(loader.RecoveryUKI))
	c.onESP(func(files *fat.FS) error {
		err := files.WriteFile(loader.RecoveryUKI, bytes.Repeat([]byte{1}, size))
		if err != nil {
			return err
		}
		return files.WriteFile("filler", make([]byte, files.Free()))
	})

	r, err := c.u.CheckESP()
	const want = "the recovery entry was damaged, and cannot be repaired: "
	if err != nil || len(r.Repaired) > 0 || len(r.Left) != 1 || !strings.HasPrefix(r.Left[0], want) {
		t.Errorf("%+v, %v", r, err)
	}
}

// unreadable are records of which those about the ESP cannot be read while they
// are failing.
type unreadable struct {
	upgrade.Records
	failing atomic.Bool
}

var errUnreadable = errors.New("the record cannot be read")

func (u *unreadable) Read(name string) ([]byte, error) {
	if u.failing.Load() && strings.Contains(name, "uki") {
		return nil, errUnreadable
	}
	return u.Records.Read(name)
}

// TestChosenLoadersStayOnTheESP: a program that was signed once more, or is
// another one, is not damaged.
func TestChosenLoadersStayOnTheESP(t *testing.T) {
	for name, program := range map[string][]byte{
		"another loader":               firmware.PE(uki.Section{Name: ".text", Data: make([]byte, 5000)}),
		"the loader, of a later time":  firmware.SystemdBoot("300"),
		"the loader, of an older time": firmware.SystemdBoot("255"),
	} {
		c := newCourse(t, "1.0.0")
		if _, err := c.u.CheckESP(); err != nil {
			t.Fatal(err)
		}
		c.onESP(func(files *fat.FS) error {
			return files.WriteFile(loader.Path(arch), program)
		})
		r, err := c.u.CheckESP()
		if err != nil || len(r.Repaired)+len(r.Left) > 0 ||
			!bytes.Equal(c.fileOnESP(loader.Path(arch)), program) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
