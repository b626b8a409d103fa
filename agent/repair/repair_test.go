package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/esp"
)

// resetting implements [System] for a machine whose machine.yaml has
// state.onDamage: reset. It fails the test if a repair does more than look.
type resetting struct{ testing.TB }

func (resetting) Resets(context.Context) (bool, error) { return true, nil }
func (resetting) Show(status.Repair)                   {}

func (s resetting) WithState(string, func(*os.Root) error) error {
	s.Error("mounted")
	return errors.New("not mounted")
}

func (s resetting) GiveBackTry() error {
	s.Error("gave a try back")
	return nil
}

func (s resetting) Restart(context.Context) error {
	s.Error("restarted")
	return nil
}

func TestALockedContainerStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	runner := Runner{
		Damage: boot.Damage{Reason: "no key opens it", Locked: true},
		Device: filepath.Join(dir, "state"),
		ESP:    filepath.Join(dir, "esp"),
		Dir:    filepath.Join(dir, "run"),
		System: resetting{t},
		Now:    time.Now,
		Log:    zap.NewNop(),
	}
	for _, name := range []string{runner.Device, runner.ESP} {
		if err := os.WriteFile(name, make([]byte, 8192), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	r, err := runner.Run(t.Context())
	if err != nil || r.State != status.RepairFailed || r.Code != fault.StateLocked || r.Hint == "" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, name := range []string{runner.Device, runner.ESP} {
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, make([]byte, 8192)) {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
}

// TestADamagedRecordIsReplaced: once the new one counts the repair, the machine may
// restart. One that cannot be replaced still keeps it from that.
func TestADamagedRecordIsReplaced(t *testing.T) {
	for _, tt := range []struct {
		name   string
		record string
		broken bool
		want   Op
	}{
		{name: "there is none", want: Restart},
		{name: "it is damaged", record: "{", want: Restart},
		{name: "it cannot be written", broken: true, want: Stay},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			runner := Runner{
				Damage: boot.Damage{Ext4: true},
				Device: filepath.Join(dir, "state"),
				ESP:    filepath.Join(dir, "esp"),
				Dir:    dir,
				System: resetting{t},
				Now:    time.Now,
				Log:    zap.NewNop(),
			}
			if !tt.broken {
				writeESP(t, runner.ESP, tt.record)
			}

			v := runner.observe(t.Context())
			runner.do(t.Context(), CountRepair, &v)
			v.Preened, v.Judged, v.Clean, v.LogKept = true, true, true, true
			runner.do(t.Context(), RecordRepaired, &v)
			if got := Next(v); got != tt.want {
				problem, _ := v.why()
				t.Errorf("the repaired partition ends in %q, want %q: %s", got, tt.want, problem)
			}

			record, err := runner.readRecord()
			if !tt.broken && (err != nil || record.Repairs != 1 || record.State != status.RepairDone) {
				t.Errorf("the record is %+v, %v", record, err)
			}
		})
	}
}

// writeESP makes an ESP with that record, if there is one.
func writeESP(t *testing.T, name, record string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	var files []esp.File
	if record != "" {
		files = append(files, esp.File{Path: recordName, Data: []byte(record)})
	}
	const size = 600 << 20
	if err := errors.Join(f.Truncate(size), esp.Write(f, size, 512, 1, files)); err != nil {
		t.Fatal(err)
	}
}

// TestAnEncryptedStateHasNoCopyOnTheESP, because that is not encrypted.
func TestAnEncryptedStateHasNoCopyOnTheESP(t *testing.T) {
	var v View
	Runner{Encrypted: true, Log: zap.NewNop()}.keepAside(&v)
	if v.Record.Kept != "" || v.Record.Problem != errPlainESP.Error() {
		t.Errorf("%+v", v.Record)
	}
}

// TestAFailedRepairIsOver once the node runs from its state partition again.
func TestAFailedRepairIsOver(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for state, want := range map[status.RepairState]status.RepairState{
		status.RepairFailed: "",
		status.RepairDone:   status.RepairDone,
		status.Repairing:    status.RepairDone,
	} {
		record := fmt.Sprintf(`{"state": %q, "at": "2026-03-01T11:00:00Z"}`, state)
		last, err := Last(recorded(record), now)
		var got status.RepairState
		if last != nil {
			got = last.State
		}
		if err != nil || got != want {
			t.Errorf("%s is shown as %q, %v", state, got, err)
		}
	}
}

// TestARepairIsShownForAMonth, and no longer if the clock was ahead at that time.
func TestARepairIsShownForAMonth(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for at, want := range map[string]bool{
		"2026-03-01T11:00:00Z": true,
		"2026-03-01T12:05:00Z": true,
		"2026-02-01T11:00:00Z": true,
		"2026-01-01T11:00:00Z": false,
		"2038-01-19T03:14:08Z": false,
	} {
		last, err := Last(recorded(fmt.Sprintf(`{"state": "repaired", "at": %q}`, at)), now)
		if err != nil || (last != nil) != want {
			t.Errorf("%s: %+v, %v, want it shown: %t", at, last, err, want)
		}
	}
}

// recorded is an ESP with one file.
type recorded string

func (r recorded) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(r))), nil
}
