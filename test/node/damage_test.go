package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/repair"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/test/damage"
	"github.com/loam-os/loam/test/judge"
)

// damaged is a machine whose raw disk was changed before it is switched on.
// It ends where it would restart.
func damaged(t *testing.T, change func(m *machine, disk *os.File)) *machine {
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.config.Disk = filepath.Join(m.config.Dir, "flashed.raw")
	m.config.NoReboot = true
	m.tool("cp", "--sparse=always", b.file(".raw"), m.config.Disk)

	disk, err := os.OpenFile(m.config.Disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	change(m, disk)

	return m
}

// partition is the start of the first partition with the label, in bytes.
func (m *machine) partition(index int) int64 {
	for _, p := range m.build.manifest.Partitions {
		if p.Index == index {
			return p.Start
		}
	}
	m.t.Fatalf("no partition %d", index)
	return 0
}

// Indexes of the partitions, as partitions/*.conf orders them.
const (
	esp     = 1
	sigA    = 2
	verityA = 3
	rootA   = 4
	verityB = 6
	rootB   = 7
	state   = 8
)

func flip(t *testing.T, disk *os.File, at int64) {
	t.Helper()
	b := make([]byte, 1)
	if _, err := disk.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}

	b[0] ^= 0x10
	if _, err := disk.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

var extent = regexp.MustCompile(`(?m)^\s*\d+:\s+\d+\.\.\s*\d+ \|\s+\d+ :\s+(\d+)\.\.`)

func TestFlippedByteNeverReachesARunningSystem(t *testing.T) {
	judge.Long(t, "TestVerifyFindsEveryChange of test/image")
	parallel(t, 4*time.Minute)
	places := map[string]func(m *machine) int64{
		"in the superblock": func(*machine) int64 { return 1024 + 64 },
		"in systemd's program": func(m *machine) int64 {
			out := m.tool("dump.erofs", "-e", "--path=/usr/lib/systemd/systemd",
				m.build.file(".root"))
			found := extent.FindStringSubmatch(out)
			if found == nil {
				t.Fatalf("dump.erofs: %s", out)
			}

			at, err := strconv.ParseInt(found[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}

			return at + 100
		},
	}

	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			m := damaged(t, func(m *machine, disk *os.File) {
				flip(t, disk, m.partition(rootA)+place(m))
			})

			n := m.on(t, nil)
			n.ended() // it restarts, which NoReboot turns into an end
			for _, l := range n.Console().Lines() {
				if strings.Contains(l.Text, "phase") {
					t.Errorf("the agent ran:\n%s", n.Console().Tail(30))
					break
				}
			}

			if !regexp.MustCompile(`is corrupted`).MatchString(n.Console().Tail(1000)) {
				t.Errorf("the console does not say why it restarted:\n%s", n.Console().Tail(30))
			}
		})
	}
}

// section is a part of a disk.
type section struct {
	*io.SectionReader
	io.WriterAt
	sync func() error
}

func (s section) Sync() error { return s.sync() }

// part is a partition of a disk of the machine.
func (m *machine) part(disk *os.File, index int) section {
	m.t.Helper()
	for _, p := range m.build.manifest.Partitions {
		if p.Index == index {
			return section{
				SectionReader: io.NewSectionReader(disk, p.Start, p.Size),
				WriterAt:      io.NewOffsetWriter(disk, p.Start),
				sync:          disk.Sync,
			}
		}
	}
	m.t.Fatalf("no partition %d", index)
	return section{}
}

// withState is a machine whose state partition was in use, and is then changed.
func withState(t *testing.T, p *damage.Partition, change func(m *machine, s section)) *machine {
	t.Helper()
	return damaged(t, func(m *machine, disk *os.File) {
		s := m.part(disk, state)
		if err := errors.Join(s.clear(), p.Write(s)); err != nil {
			t.Fatal(err)
		}
		change(m, s)
	})
}

// clear writes zeros where the partition has a mark.
func (s section) clear() error {
	_, err := s.WriteAt(make([]byte, 4096), 0)
	return err
}

// copyFrom copies an image to the partition.
func (s section) copyFrom(image string) error {
	in, err := os.Open(image)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(io.NewOffsetWriter(s, 0), in)
	return err
}

// withDamage is a machine with a damage.
func withDamage(t *testing.T, p *damage.Partition, d damage.Damage) *machine {
	t.Helper()
	return withState(t, p, func(_ *machine, s section) {
		if err := d.Do(p, s); err != nil {
			t.Fatal(err)
		}
	})
}

// stateFile is a file with the state partition of the machine.
func (m *machine) stateFile() string {
	m.t.Helper()
	name := filepath.Join(m.config.Dir, "state")
	in, err := os.Open(m.config.Disk)
	if err != nil {
		m.t.Fatal(err)
	}
	defer in.Close()

	out, err := os.Create(name)
	if err != nil {
		m.t.Fatal(err)
	}
	_, err = io.Copy(out, m.part(in, state))
	if err := errors.Join(err, out.Close()); err != nil {
		m.t.Fatal(err)
	}
	return name
}

// lastRepair is the repair that the ESP of the machine records.
func (m *machine) lastRepair() *status.Repair {
	m.t.Helper()
	disk, err := os.Open(m.config.Disk)
	if err != nil {
		m.t.Fatal(err)
	}
	defer disk.Close()

	last, err := repair.Last(espOf{m.part(disk, esp), m.build.manifest.SectorSize}, time.Now())
	if err != nil || last == nil {
		m.t.Fatalf("the last repair: %+v, %v", last, err)
	}
	return last
}

// espOf reads files of an ESP.
type espOf struct {
	section
	sectorSize int
}

func (e espOf) Open(path string) (io.ReadCloser, error) {
	files, err := bootdir.Open(e.section, e.Size(), e.sectorSize)
	if err != nil {
		return nil, err
	}
	r, err := files.Open(path[1:])
	return io.NopCloser(r), err
}

var (
	inMemoryLine  = regexp.MustCompile(`the state of the node is in memory`)
	repairingPage = regexp.MustCompile(`health +changing: the state partition is being repaired`)
)

// TestDamagedState: each damage is repaired in one boot, and the machine
// restarts.
func TestDamagedState(t *testing.T) {
	judge.Long(t, "TestGenerated of test/damage")
	p := damage.NewPartition(t, true, nil)
	for _, d := range []damage.Damage{
		{Part: damage.Superblocks, Way: damage.Zeros, Blocks: []int64{0}},
		{Part: damage.Descriptors, Way: damage.Garbage, Blocks: p.Parts[damage.Descriptors][:1]},
		{Part: damage.Journal, Way: damage.Garbage, Blocks: p.Parts[damage.Journal]},
	} {
		t.Run(string(d.Part), func(t *testing.T) {
			parallel(t, 2*time.Minute)
			m := withDamage(t, p, d)
			n := m.on(t, nil)
			n.expect(inMemoryLine)
			n.expect(repairingPage)
			n.ended()

			if last := m.lastRepair(); last.State != status.RepairDone || last.Changes == 0 {
				t.Errorf("%+v", last)
			}
			if !damage.Mountable(t, m.stateFile()) {
				t.Error("the partition is not repaired")
			}
			if !strings.Contains(m.tool("dumpe2fs", "-h", m.stateFile()), "has_journal") {
				t.Error("the file system has no journal")
			}
		})
	}
}

// TestDamageDoesNotEndATrial: a system on trial has all its tries after the boot
// that repairs the state, and the trial goes on.
func TestDamageDoesNotEndATrial(t *testing.T) {
	judge.Long(t, "test/damage")
	parallel(t, 3*time.Minute)
	b := open(t)
	p := damage.NewPartition(t, false, map[string]string{
		"lib/loam/upgrade.json": fmt.Sprintf(`{"phase": "armed", "target": {"version": %q, `+
			`"rootHash": %q}, "from": {"version": "0.0.1", "rootHash": "00"}, "attempt": 1}`,
			b.manifest.Version, b.manifest.RootHash),
	})

	blessed := filepath.Base(b.manifest.UKI)
	name, err := bootentry.Parse(blessed)
	if err != nil {
		t.Fatal(err)
	}
	name.Counted = true
	name.TriesLeft = upgrade.Tries
	tried, err := bootentry.Format(name)
	if err != nil {
		t.Fatal(err)
	}

	m := damaged(t, func(m *machine, disk *os.File) {
		s := m.part(disk, state)
		e := m.part(disk, esp)
		files, err := bootdir.Open(e, e.Size(), b.manifest.SectorSize)
		if err != nil {
			t.Fatal(err)
		}
		if err := files.Rename(bootentry.Dir, blessed, tried, false); err != nil {
			t.Fatal(err)
		}

		image := filepath.Join(m.config.Dir, "flagged")
		if err := p.WriteFile(image); err != nil {
			t.Fatal(err)
		}
		damage.SetErrorFlag(t, image)
		if err := s.copyFrom(image); err != nil {
			t.Fatal(err)
		}
	})

	n := m.on(t, nil)
	n.expect(inMemoryLine)
	n.ended()
	entries := m.tool("mdir", "-b", "-i", fmt.Sprintf("%s@@%d", m.config.Disk, m.partition(esp)),
		"::"+bootentry.Dir)
	if !strings.Contains(entries, tried) {
		t.Fatalf("entries: %s, want %s", entries, tried)
	}

	n = m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, "")})
	n.expect(regexp.MustCompile(`root [0-9a-f]+ verified, generation none, on trial`))
	n.shell()
	n.says(func(s status.Status) bool {
		return s.Repair != nil && s.Repair.State == status.RepairDone && s.Health != status.Unwell
	})
	n.want("findmnt -no FSTYPE /var", "ext4")
	n.sh("grep -q 'e2fsck -f -p' " + n.status().Repair.Log)
}

// TestForeignDataOnTheStatePartitionStays: the node is up, with its state in
// memory, and says why.
func TestForeignDataOnTheStatePartitionStays(t *testing.T) {
	judge.Long(t, "test/damage")
	parallel(t, 3*time.Minute)
	foreign := []byte("an owner's photographs")
	m := damaged(t, func(m *machine, disk *os.File) {
		if _, err := disk.WriteAt(foreign, m.partition(state)); err != nil {
			t.Fatal(err)
		}
	})

	n := m.on(t, map[string]string{"loam.machine": machineYAML(m.build.manifest.Arch, "")})
	n.expect(regexp.MustCompile(`holds unknown data`))
	n.expect(regexp.MustCompile(`health +not well: the state is in memory`))
	n.shell()
	n.says(func(s status.Status) bool {
		return s.Repair != nil && s.Repair.State == status.RepairFailed &&
			s.Health == status.Unwell && s.Machine != ""
	})
	n.want("findmnt -no FSTYPE /var", "tmpfs")
	n.off()

	disk, err := os.Open(m.config.Disk)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	have := make([]byte, len(foreign))
	if _, err := disk.ReadAt(have, m.partition(state)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if !bytes.Equal(have, foreign) {
		t.Errorf("the data is now %q", have)
	}
}

// TestAStateBeyondRepairIsFormattedOnRequest: the machine restarts with an empty
// state, and a copy of the old one is on the ESP.
func TestAStateBeyondRepairIsFormattedOnRequest(t *testing.T) {
	judge.Long(t, "test/damage")
	parallel(t, 3*time.Minute)
	p := damage.NewPartition(t, false, nil)
	m := withDamage(t, p, damage.Damage{
		Part:   damage.Superblocks,
		Way:    damage.Garbage,
		Blocks: p.Parts[damage.Superblocks],
	})
	yaml := machineYAML(m.build.manifest.Arch, "state: {onDamage: reset}\n")
	n := m.on(t, map[string]string{"loam.machine": yaml})
	n.expect(inMemoryLine)
	n.ended()
	if last := m.lastRepair(); last.State != status.RepairReset || last.Kept == "" {
		t.Errorf("%+v", last)
	}

	n = m.on(t, map[string]string{"loam.machine": yaml})
	n.shell()
	n.says(func(s status.Status) bool {
		return s.Repair != nil && s.Repair.State == status.RepairReset
	})
	n.want("findmnt -no FSTYPE /var", "ext4")
	n.sh("test ! -e /var/lib/kubelet/pods")
}

// TestADamagedESPIsRepaired: the recovery entry and the copy of the boot sector
// are damaged while the machine is off, and nothing else is taken for damaged.
func TestADamagedESPIsRepaired(t *testing.T) {
	judge.Long(t, "TestDamagesOfTheESP of test/crash/upgrade")
	matrix(t)
	var want []byte
	m := damaged(t, func(m *machine, disk *os.File) {
		part := m.part(disk, esp)
		files, err := bootdir.Open(part, part.Size(), m.build.manifest.SectorSize)
		if err != nil {
			t.Fatal(err)
		}
		r, err := files.Open(loader.RecoveryUKI)
		if err == nil {
			want, err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}

		bad := bytes.Clone(want)
		bad[len(bad)/2] ^= 1
		err = files.WriteFile(loader.RecoveryUKI, bad)
		copyAt := 6 * int64(m.build.manifest.SectorSize)
		_, copyErr := part.WriteAt(make([]byte, 512), copyAt)
		if err := errors.Join(err, copyErr); err != nil {
			t.Fatal(err)
		}
	})

	n := m.on(t, map[string]string{"loam.machine": machineYAML(m.build.manifest.Arch, "")})
	n.shell()
	for _, uptime := range []int{150, 290} { // The check is 5 minutes after kernel start.
		n.sh(fmt.Sprintf("until test $(cut -d. -f1 /proc/uptime) -gt %d; do sleep 1; done", uptime))
	}
	n.sh("until journalctl -u loam-agent | grep -q 'repaired the ESP'; do sleep 1; done")
	n.want("journalctl -u loam-agent -o cat | grep -c 'repaired the ESP'", "1")
	n.want("journalctl -u loam-agent -o cat | grep -c 'the ESP is damaged'; true", "0")
	n.off()

	disk, err := os.Open(m.config.Disk)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	part := m.part(disk, esp)
	files, err := bootdir.Open(part, part.Size(), m.build.manifest.SectorSize)
	if err != nil {
		t.Fatal(err)
	}
	if report := files.Check(); !report.Clean() {
		t.Errorf("%+v", report)
	}
	r, err := files.Open(loader.RecoveryUKI)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the recovery entry is as it was: %v", err)
	}
}

// damages is how many damages TestGeneratedDamages tries; LOAM_DAMAGES is another
// number. TestDamagedState has the structures that none of the first has.
const damages = 5

// TestGeneratedDamages starts a machine with each of the damages until it runs with
// its state, or says that it cannot.
func TestGeneratedDamages(t *testing.T) {
	judge.Long(t, "TestGenerated of test/damage")
	count := damages
	if text := os.Getenv("LOAM_DAMAGES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		count = n
	}

	p := damage.NewPartition(t, true, nil)
	for seed := range count {
		d := damage.New(p, uint64(seed))
		t.Run(d.String(), func(t *testing.T) {
			parallel(t, 3*time.Minute)
			m := withDamage(t, p, d)
			const most = 4
			for range most {
				n := m.on(t, nil)
				end := n.expect(regexp.MustCompile(`(being repaired|not well: the state is in memory|` +
					`the kernel has found errors|health +(?:idle|well|changing: the agent))`))
				switch {
				case strings.HasPrefix(end[1], "the kernel"):
					n.ended() // The kernel found the damage while it ran.
					continue
				case !strings.HasPrefix(end[1], "being"):
					return
				}
				_, _, _, err := n.Console().Expect(t.Context(), n.next,
					regexp.MustCompile(`not well: the state is in memory`))
				if err == nil {
					return
				}
				n.ended()
			}
			t.Errorf("%d restarts", most)
		})
	}
}
