package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// inMemory are records in memory.
type inMemory map[string][]byte

func (m inMemory) Read(name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

func (m inMemory) Write(name string, data []byte) error {
	m[name] = data
	return nil
}

func (m inMemory) Remove(name string) error {
	delete(m, name)
	return nil
}

func (inMemory) Scratch(int64) (disk.Closer, error) { return nil, fs.ErrInvalid }

func (inMemory) Free() (int64, error) { return 0, nil }

// still is an [upgrade.Host] whose health does not change.
type still struct{ health upgrade.Health }

func (s still) Health(context.Context) upgrade.Health            { return s.health }
func (still) Evidence(context.Context, upgrade.Journal) []string { return nil }
func (still) HandOver(string, bool) error                        { return nil }
func (still) Loader() ([]byte, error)                            { return nil, fs.ErrNotExist }
func (still) Panic() error                                       { return fs.ErrInvalid }

// restarting is a Machine that notes whether it is to restart, and the version that
// a restart by others would bring.
type restarting struct {
	restarts *bool
	due      *string
}

func (restarting) Uptime() time.Duration      { return time.Minute }
func (restarting) Proven()                    {}
func (restarting) Event(bool, string, string) {}

func (r restarting) RestartDue(version string) { *r.due = version }

func (r restarting) Reboot(context.Context) error {
	*r.restarts = true
	return nil
}

// turnsOf are [Turns] that have a turn for may only.
type turnsOf struct{ may, awaited *upgrade.System }

func (t turnsOf) Await(s upgrade.System) string {
	*t.awaited = s
	if s == *t.may {
		return ""
	}
	return "waits for its turn"
}

func (turnsOf) Changed() <-chan struct{} { return nil }

// armedRunner is on a machine that runs 1.0.0 and is about to restart with 2.0.0. It
// has no disk.
func armedRunner(t *testing.T) (r *runner, restarts *bool) {
	t.Helper()
	j := upgrade.Journal{
		Phase:    upgrade.Armed,
		From:     one,
		Target:   two,
		Baseline: upgrade.Health{"all": {State: upgrade.Well}},
	}
	kept := inMemory{}
	if err := records.Save(kept, "upgrade.json", j); err != nil {
		t.Fatal(err)
	}

	restarts = new(bool)
	return &runner{
		Service: New(&Service{
			Upgrader: &upgrade.Upgrader{
				Records: kept,
				Boot:    upgrade.Boot{Running: one},
				Host:    still{upgrade.Health{"all": {State: upgrade.Well}}},
				Now:     func() time.Time { return now },
				Log:     zap.NewNop(),
			},
			Machine: restarting{restarts, new(string)},
			Log:     zap.NewNop(),
		}),
		op:    upgrade.Op{Kind: upgrade.Reboot},
		pause: time.Minute,
	}, restarts
}

// TestARestartWaitsForItsTurn asks the others for a turn for the system that is to
// start, unless the window is closed.
func TestARestartWaitsForItsTurn(t *testing.T) {
	closed, err := window.Parse("02:00-03:00")
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name         string
		may, awaited upgrade.System
		window       window.Window
		restarts     bool
		waits        string
	}{
		{"others come first", upgrade.System{}, two, window.Window{}, false, "waits for its turn"},
		{"its turn", two, two, window.Window{}, true, ""},
		{
			"its turn, outside of its window",
			two, upgrade.System{}, closed, false, "restarts on Sun at 02:00 UTC",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, restarts := armedRunner(t)
			awaited := one // No turn is ever asked for what runs.
			r.Turns = turnsOf{may: &tt.may, awaited: &awaited}
			r.Policy.Window = tt.window
			if r.move(t.Context()) == nil {
				t.Error("no step follows")
			}

			s := r.State()
			if *restarts != tt.restarts || awaited != tt.awaited || s.Waits != tt.waits {
				t.Errorf("restarts %v, asks for %v, waits %q", *restarts, awaited, s.Waits)
			}
			if s.Restarts.IsZero() != (tt.window == window.Window{}) {
				t.Errorf("restarts at %s", s.Restarts)
			}
		})
	}
}

// TestARestartThatIsLeftToOthersIsSaid has an upgrade wait for whoever restarts the
// machine, until it is canceled.
func TestARestartThatIsLeftToOthersIsSaid(t *testing.T) {
	r, restarts := armedRunner(t)
	journal, err := upgrade.ReadJournal(r.Upgrader.Records)
	if err != nil {
		t.Fatal(err)
	}
	journal.Stay = true
	if err := records.Save(r.Upgrader.Records, "upgrade.json", journal); err != nil {
		t.Fatal(err)
	}

	due := r.Machine.(restarting).due
	if r.move(t.Context()) != nil || *restarts || *due != two.Version {
		t.Errorf("restarts %v, says that %q is due", *restarts, *due)
	}

	r.op = upgrade.Op{Kind: upgrade.Nothing}
	if err := r.Upgrader.Records.Remove("upgrade.json"); err != nil {
		t.Fatal(err)
	}
	r.move(t.Context())
	if *due != "" {
		t.Errorf("says that %q is due, and there is no upgrade", *due)
	}
}

// TestTheNextTryIsShown has a step fail, and then the next one begin to fetch.
func TestTheNextTryIsShown(t *testing.T) {
	r, _ := armedRunner(t)
	r.err = errors.New("connection refused")
	r.move(t.Context())
	if want := now.Add(time.Minute); !r.State().Retry.Equal(want) {
		t.Errorf("tries again at %s, want %s", r.State().Retry, want)
	}

	listener{r.Service}.Progress(disk.Progress{})
	if at := r.State().Retry; !at.IsZero() {
		t.Errorf("tries again at %s while it tries", at)
	}
}

// TestTheBaselineIsThatOfTheRestart has something break while an upgrade waits.
func TestTheBaselineIsThatOfTheRestart(t *testing.T) {
	r, restarts := armedRunner(t)
	r.Upgrader.Host = still{upgrade.Health{"all": {State: upgrade.Well}, "new": {State: upgrade.Well}}}
	r.move(t.Context())
	j, err := upgrade.ReadJournal(r.Upgrader.Records)
	if err != nil || len(j.Baseline) != 2 || !*restarts {
		t.Errorf("baseline %v, %v", j.Baseline, err)
	}
}

// TestAHeldSystemIsNotUpgraded has requests come while machine.yaml holds the system,
// of a machine that knows no repository.
func TestAHeldSystemIsNotUpgraded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request Request
		want    fault.Code
	}{
		{"of an operator", Request{}, fault.UpgradeHeld},
		{"which is only planned", Request{Plan: true}, fault.UpgradeHeld},
		{"of the cluster", Request{Options: upgrade.Options{AtOnce: true}}, fault.UpgradeHeld},
		{
			"of the cluster, once more",
			Request{Options: upgrade.Options{Again: true, Now: true}},
			fault.UpgradeHeld,
		},
		{
			"of an operator who does not wait",
			Request{Options: upgrade.Options{Now: true, AtOnce: true}},
			fault.NoRepository,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := armedRunner(t)
			r.Policy.Hold = "audit"
			_, _, err := r.begin(t.Context(), tt.request)
			if fault.Of(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// TestRoomThatComesBack has a full /var refuse the version of machine.yaml. It is
// tried again, not too soon, and the log says once that there is no room.
func TestRoomThatComesBack(t *testing.T) {
	for _, tt := range []struct {
		code fault.Code
		want MoveKind
	}{
		{fault.StateFull, Bring},
		{fault.ESPFull, Bring},
		{fault.BatteryLow, Bring},
		{fault.SlotTooSmall, Pause},
	} {
		t.Run(string(tt.code), func(t *testing.T) {
			r, _ := armedRunner(t)
			if err := r.Upgrader.Records.Remove("upgrade.json"); err != nil {
				t.Fatal(err)
			}
			r.op = upgrade.Op{Kind: upgrade.Nothing}
			r.nextCheck = time.Hour
			r.version = "2.0.0"
			core, said := observer.New(zap.WarnLevel)
			r.Log = zap.New(core)

			for free := range 3 {
				err := fmt.Errorf("%d MiB are free", free)
				r.reportRefusal(fault.With(err, tt.code))
				if want := "machine.yaml, upgrade.version: " + err.Error(); r.State().Problem != want {
					t.Errorf("problem %q, want %q", r.State().Problem, want)
				}
			}

			if m := Decide(r.observe()); m.Kind != tt.want || m.After < retryMax {
				t.Errorf("%s after %s, want %s after %s", m.Kind, m.After, tt.want, retryMax)
			}
			full := tt.code == fault.StateFull || tt.code == fault.ESPFull
			if full && said.Len() != 1 {
				t.Errorf("%d lines in the log", said.Len())
			}
		})
	}
}

// closed are partitions that cannot be opened.
type closed struct{}

func (closed) Open(gpt.Partition) (disk.Closer, error) { return nil, fs.ErrInvalid }

func (closed) OpenRunning(gpt.Partition) (io.ReaderAt, io.Closer, error) {
	return nil, nil, fs.ErrInvalid
}

// TestADamagedTableIsSaid for what it is, and not as damage of the ESP.
func TestADamagedTableIsSaid(t *testing.T) {
	memory := firmware.NewMemory(nil)
	table := gpt.Table{
		SectorSize: firmware.SectorSize,
		DiskSize:   64 << 20,
		Partitions: []gpt.Partition{{
			Index: 1,
			Type:  partitions.TypeUUID(partitions.ESP, "amd64"),
			UUID:  uuid.UUID{15: 1},
			Start: 1 << 20,
			Size:  1 << 20,
		}},
	}
	if err := table.Create(memory); err != nil {
		t.Fatal(err)
	}

	r, _ := armedRunner(t)
	if err := r.Upgrader.Records.Remove("upgrade.json"); err != nil {
		t.Fatal(err)
	}
	r.Upgrader.Disk = disk.Disk{
		Arch:       "amd64",
		Size:       table.DiskSize,
		SectorSize: table.SectorSize,
		Whole:      firmware.BadEnd{Device: memory, From: table.DiskSize - firmware.SectorSize},
		Partitions: closed{},
	}
	r.checkESP()

	s := r.State()
	if !strings.HasPrefix(s.TableDamage, "the partition table is damaged") {
		t.Errorf("table damage %q", s.TableDamage)
	}
	for _, what := range s.Damage { // This ESP cannot be opened.
		if strings.Contains(what, "table") {
			t.Errorf("damage %q", what)
		}
	}
}
