package damage

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/repair"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/judge"
)

// garbage is a partition with nothing of a file system.
var garbage = bytes.Repeat([]byte("an owner's photographs "), 1<<18)

// overwrite writes garbage over the state of a machine.
func overwrite(t *testing.T, m *Machine, data []byte) {
	t.Helper()
	f, err := os.Create(m.State)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	whole := f.Truncate(max(Size, int64(len(data))))
	if err := errors.Join(err, whole, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// kept reads the copy of the state partition on the ESP.
func kept(t *testing.T, m *Machine) []byte {
	t.Helper()
	file, err := source.Partition{Device: m.ESP}.Open("/" + repair.AsideName)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestIrreparableStateStaysOrIsReset(t *testing.T) {
	p := NewPartition(t, false, nil)

	t.Run("stays as it is", func(t *testing.T) {
		m := NewMachine(t, p)
		overwrite(t, m, garbage)
		before := read(t, m.State)
		end, err := m.Run(nil)
		if err != nil || end.State != status.RepairFailed || end.Restarts != 0 {
			t.Errorf("%+v, %v", end, err)
		}
		if !bytes.Equal(before, read(t, m.State)) {
			t.Error("the partition has changed")
		}
	})

	t.Run("is kept and formatted if the owner wants that", func(t *testing.T) {
		m := NewMachine(t, p)
		m.OnDamageReset = true
		overwrite(t, m, garbage)
		before := read(t, m.State)
		end, err := m.Run(nil)
		if err != nil || end.State != status.RepairReset || end.Restarts != 1 {
			t.Errorf("%+v, %v", end, err)
		}
		if !Mountable(t, m.State) {
			t.Error("the partition is not formatted")
		}
		if !bytes.Equal(before, kept(t, m)) {
			t.Error("the copy is not what was there")
		}
	})

	t.Run("is formatted without a copy if there is no room", func(t *testing.T) {
		m := NewMachine(t, p)
		m.OnDamageReset = true
		if err := writeESP(m.ESP, 528<<20); err != nil {
			t.Fatal(err)
		}

		random := make([]byte, 300<<20)
		r := rand.NewChaCha8([32]byte{})
		if _, err := r.Read(random); err != nil {
			t.Fatal(err)
		}
		overwrite(t, m, random)

		end, err := m.Run(nil)
		if err != nil || end.State != status.RepairReset || end.Repair.Kept != "" ||
			end.Repair.Problem == "" {
			t.Errorf("%+v, %v", end, err)
		}
	})
}

// TestARepairThatDoesNotHelpEnds: the damage comes back at each start.
func TestARepairThatDoesNotHelpEnds(t *testing.T) {
	p := NewPartition(t, false, nil)
	flag := func(t *testing.T, m *Machine) { SetErrorFlag(t, m.State) }
	inodes := func(t *testing.T, m *Machine) {
		d := Damage{Seed: 1, Part: Inodes, Way: Garbage, Blocks: p.Parts[Inodes][:2]}
		if err := d.DoFile(p, m.State); err != nil {
			t.Fatal(err)
		}
	}

	for _, tt := range []struct {
		name     string
		damage   func(*testing.T, *Machine)
		reset    bool
		restarts int
		want     status.RepairState
	}{
		{"without onDamage it stays", flag, false, 3, status.RepairFailed},
		{
			"with onDamage, too, if e2fsck -p leaves nothing of it",
			flag, true, 3, status.RepairFailed,
		},
		{"with onDamage it is reset if it does", inodes, true, 5, status.RepairFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMachine(t, p)
			m.OnDamageReset = tt.reset
			damage := func(int) context.Context {
				tt.damage(t, m)
				return context.Background()
			}

			m.AlwaysDamaged = true
			end, err := m.Run(damage)
			if err != nil || end.State != tt.want || end.Restarts != tt.restarts {
				t.Errorf("%+v, %v", end, err)
			}

			// A restart by an operator changes nothing, until the next day.
			end, err = m.Run(damage)
			if err != nil || end.State != tt.want || end.Restarts != 0 {
				t.Errorf("a restart: %+v, %v", end, err)
			}

			m.AlwaysDamaged = false
			m.Now = m.Now.Add(25 * time.Hour)
			end, err = m.Run(damage)
			if err != nil || end.State == status.RepairFailed {
				t.Errorf("the next day: %+v, %v", end, err)
			}
		})
	}
}

// TestAClockThatIsWrongEndsToo: a machine without a battery for its clock has the
// date of its kernel at some starts, and the right one at others.
func TestAClockThatIsWrongEndsToo(t *testing.T) {
	p := NewPartition(t, false, nil)
	for _, reset := range []bool{false, true} {
		t.Run(fmt.Sprintf("reset %t", reset), func(t *testing.T) {
			m := NewMachine(t, p)
			m.AlwaysDamaged = true
			m.OnDamageReset = reset
			clocks := []time.Time{m.Now, m.Now.AddDate(0, 8, 0)}
			SetErrorFlag(t, m.State)
			end, err := m.Run(func(boot int) context.Context {
				m.Now = clocks[boot%len(clocks)]
				SetErrorFlag(t, m.State)
				return context.Background()
			})
			if err != nil || end.State != status.RepairFailed {
				t.Errorf("%+v, %v", end, err)
			}
		})
	}
}

// TestWithoutAnESPNothingRestarts: nothing could count the restarts.
func TestWithoutAnESPNothingRestarts(t *testing.T) {
	for name, spoil := range map[string]func(m *Machine) error{
		"it is gone": func(m *Machine) error { return os.Remove(m.ESP) },
		"it is damaged": func(m *Machine) error {
			return os.WriteFile(m.ESP, make([]byte, 1<<20), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPartition(t, false, nil)
			m := NewMachine(t, p)
			m.OnDamageReset = true
			SetErrorFlag(t, m.State)
			if err := spoil(m); err != nil {
				t.Fatal(err)
			}

			end, err := m.Run(nil)
			if err != nil || end.State != status.RepairFailed || end.Restarts != 0 {
				t.Fatalf("%+v, %v", end, err)
			}
			end, err = m.Run(nil)
			if err != nil || end.State != "" {
				t.Errorf("the restart by an operator: %+v, %v", end, err)
			}
		})
	}
}

// TestPowerCutsBetweenSteps cuts the power after each step of a repair and of a
// reset.
func TestPowerCutsBetweenSteps(t *testing.T) {
	p := NewPartition(t, false, nil)
	for _, tt := range []struct {
		name   string
		damage func(m *Machine)
		want   status.RepairState
	}{
		{"of a repair", func(m *Machine) {
			d := Damage{Seed: 1, Part: Inodes, Way: Garbage, Blocks: p.Parts[Inodes][:2]}
			if err := d.DoFile(p, m.State); err != nil {
				t.Fatal(err)
			}
		}, status.RepairDone},
		{"of a reset", func(m *Machine) { overwrite(t, m, garbage) }, status.RepairReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cuts := 0
			for step := 1; ; step++ {
				m := NewMachine(t, p)
				m.OnDamageReset = tt.want == status.RepairReset
				tt.damage(m)

				ctx := m.CutAfter(step)
				if _, err := m.Run(func(boot int) context.Context {
					if boot == 0 {
						return ctx
					}
					return context.Background()
				}); err != nil {
					t.Fatal(err)
				}
				if ctx.Err() == nil {
					break
				}

				cuts++
				last, err := repair.Last(source.Partition{Device: m.ESP}, m.Now)
				if err != nil || last == nil || last.State != tt.want || !Mountable(t, m.State) {
					t.Errorf("after step %d: %+v, %v", step, last, err)
				}
				if tt.want == status.RepairReset && !bytes.HasPrefix(kept(t, m), garbage) {
					t.Errorf("after step %d: the copy is not what was there", step)
				}
			}
			if cuts < 4 {
				t.Errorf("%d cuts", cuts)
			}
		})
	}
}

// TestPowerCutsOfE2fsck cuts the power while e2fsck writes: the disk has any of
// the blocks that it wrote.
func TestPowerCutsOfE2fsck(t *testing.T) {
	p := NewPartition(t, false, nil)
	for seed := range judge.Pick[uint64](5, 20) {
		d := New(p, seed)
		if d.Part == Superblocks {
			continue
		}

		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			whole := NewMachine(t, p)
			if err := d.DoFile(p, whole.State); err != nil {
				t.Fatal(err)
			}
			before := read(t, whole.State)
			if _, err := whole.Run(nil); err != nil {
				t.Fatal(err)
			}
			after := read(t, whole.State)

			m := NewMachine(t, p)
			if err := d.DoFile(p, m.State); err != nil {
				t.Fatal(err)
			}
			ctx := m.CutAfter(5) // The log is saved, or the repair complete.
			if err := m.Once(ctx); err != nil {
				t.Fatal(err)
			}
			mix(rand.New(rand.NewPCG(seed, 21)), before, after)
			if err := os.WriteFile(m.State, before, 0o644); err != nil {
				t.Fatal(err)
			}

			end, err := m.Run(nil)
			if err != nil {
				t.Fatal(err)
			}
			m.log = m.espLog(t) + m.Log()
			checkEnd(t, d, p, m, end)
		})
	}
}

// mix writes some blocks of after to before.
func mix(r *rand.Rand, before, after []byte) {
	for at := 0; at < len(before); at += blockSize {
		old := before[at : at+blockSize]
		written := after[at : at+blockSize]
		if !bytes.Equal(old, written) && r.IntN(2) == 0 {
			copy(old, written)
		}
	}
}

func (m *Machine) espLog(t *testing.T) string {
	t.Helper()
	file, err := source.Partition{Device: m.ESP}.Open("/loam/repair.log")
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheNodeRemembersItsRepair(t *testing.T) {
	p := NewPartition(t, false, nil)
	m := NewMachine(t, p)
	d := Damage{Seed: 1, Part: Directories, Way: Garbage, Blocks: p.Parts[Directories][:1]}
	if err := d.DoFile(p, m.State); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(nil); err != nil {
		t.Fatal(err)
	}

	esp := source.Partition{Device: m.ESP}
	last, err := repair.Last(esp, m.Now)
	if err != nil || last == nil || last.Changes == 0 || len(last.First) == 0 ||
		last.Log != "/var/lib/loam/repair/20260301T120000Z.log" {
		t.Errorf("%+v, %v", last, err)
	}

	text, err := os.ReadFile(m.mounted() + last.Log[len("/var"):])
	if err != nil || string(text) != m.Log() {
		t.Errorf("log on the partition: %d bytes, %v; want %d", len(text), err, len(m.Log()))
	}

	last, err = repair.Last(esp, m.Now.Add(31*24*time.Hour))
	if err != nil || last != nil {
		t.Errorf("a month later: %+v, %v", last, err)
	}
}
