package rtc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

var (
	built = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	right = time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC)
	late  = time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC)
)

func TestDoubtAndReset(t *testing.T) {
	for _, tt := range []struct {
		name    string
		facts   Facts
		doubt   string
		refused bool
	}{
		{
			name:  "a right clock of the hardware after a boot in 2038",
			facts: Facts{Now: late.Add(time.Hour), Hardware: right, Recorded: late},
			doubt: "the hardware's clock says 2026-11-26, and the node uses 2038-01-19",
		},
		{
			name:    "the same, after a time server has answered",
			facts:   Facts{Now: right, Hardware: right, Recorded: late, Synchronized: true},
			refused: true,
		},
		{
			name: "a time server and a wrong clock of the hardware",
			facts: Facts{
				Now: right, Hardware: time.Unix(0, 0), Recorded: right, Synchronized: true,
			},
			refused: true,
		},
		{
			name:    "an empty battery",
			facts:   Facts{Now: right, Hardware: time.Unix(60, 0), Recorded: right},
			doubt:   "the hardware's clock says 1970-01-01, which cannot be right",
			refused: true,
		},
		{
			name: "1970 as a PC says it",
			facts: Facts{
				Now: right, Hardware: time.Date(2070, 1, 1, 0, 0, 0, 0, time.UTC), Recorded: right,
			},
			doubt:   "the hardware's clock says 2070-01-01, which cannot be right",
			refused: true,
		},
		{
			name:    "a machine without a clock",
			facts:   Facts{Now: right, Recorded: right},
			refused: true,
		},
		{name: "both are right", facts: Facts{Now: right, Hardware: right.Add(time.Second)}},
		{
			name:  "the hardware has the time of Auckland",
			facts: Facts{Now: right, Hardware: right.Add(13 * time.Hour)},
		},
		{
			name:  "the hardware has the time of Honolulu",
			facts: Facts{Now: right, Hardware: right.Add(-10 * time.Hour)},
		},
		{
			name:  "an operator has set the clock back",
			facts: Facts{Now: right, Hardware: late},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.Built = built
			got := Doubt(tt.facts)
			switch {
			case tt.doubt == "" && got != nil:
				t.Errorf("doubt %q", got.Problem)
			case tt.doubt != "" && (got == nil || !strings.HasPrefix(got.Problem, tt.doubt)):
				t.Errorf("doubt %+v, want %s", got, tt.doubt)
			case got != nil && (got.Hint == "" || got.Code != fault.ClockDoubtful):
				t.Errorf("doubt %+v", got)
			}

			to, err := Reset(tt.facts)
			switch {
			case tt.refused && fault.Of(err) != fault.ClockUnfit:
				t.Errorf("reset to %s: %v, want a refusal", to, err)
			case !tt.refused && (err != nil || !to.Equal(tt.facts.Hardware)):
				t.Errorf("reset to %s: %v", to, err)
			}
		})
	}
}

func TestTextOfADoubtIsTheSameAllDay(t *testing.T) {
	f := Facts{Now: late, Built: built, Hardware: right}
	morning := Doubt(f)
	f.Now, f.Hardware = f.Now.Add(9*time.Hour), f.Hardware.Add(9*time.Hour)
	if diff := cmp.Diff(morning, Doubt(f)); diff != "" {
		t.Errorf("after nine hours (-before +after):\n%s", diff)
	}
}

// machine makes the files of a node with two clocks, of which the kernel takes
// the second.
func machine(t *testing.T) *os.Root {
	t.Helper()
	dir := t.TempDir()
	files.Write(t, filepath.Join(dir, "sys/class/rtc/rtc0/hctosys"), "0\n")
	files.Write(t, filepath.Join(dir, "sys/class/rtc/rtc0/since_epoch"), "60\n")
	files.Write(t, filepath.Join(dir, "sys/class/rtc/rtc1/hctosys"), "1\n")
	files.Write(t, filepath.Join(dir, "sys/class/rtc/rtc1/since_epoch"), "1795672800\n")
	files.Write(t, filepath.Join(dir, Recorded), "")
	if err := os.Chtimes(filepath.Join(dir, Recorded), late, late); err != nil {
		t.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestObserve(t *testing.T) {
	root := machine(t)
	got := Observe(root, late, built)
	got.Synchronized = false // whatever this machine says
	want := Facts{Now: late, Built: built, Hardware: time.Unix(1795672800, 0), Recorded: late}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for _, name := range []string{"sys/class/rtc/rtc1/since_epoch", Recorded} {
		if err := root.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if got := Observe(root, late, built); !got.Hardware.IsZero() || !got.Recorded.IsZero() {
		t.Errorf("without files: %+v", got)
	}
	if err := root.RemoveAll("sys"); err != nil {
		t.Fatal(err)
	}
	if got := Observe(root, late, built); !got.Hardware.IsZero() {
		t.Errorf("without a clock: %+v", got)
	}
}

func TestSetTakesBackTheRecordedTime(t *testing.T) {
	root := machine(t)
	var clock time.Time
	set := func(to time.Time) error {
		clock = to
		return nil
	}
	if err := Set(root, right, set); err != nil {
		t.Fatal(err)
	}
	if f := Observe(root, clock, built); !clock.Equal(right) || !f.Recorded.Equal(right) {
		t.Errorf("clock %s, recorded %s", clock, f.Recorded)
	}

	// A clock that cannot be set keeps what is recorded.
	broken := errors.New("operation not permitted")
	if err := Set(root, late, func(time.Time) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if f := Observe(root, clock, built); !f.Recorded.Equal(right) {
		t.Errorf("recorded %s", f.Recorded)
	}

	if err := root.Remove(Recorded); err != nil {
		t.Fatal(err)
	}
	if err := Set(root, right, set); err != nil {
		t.Errorf("nothing is recorded: %v", err)
	}
	if _, err := root.Stat(Recorded); err == nil {
		t.Error("a record was made, which timesyncd could not write to")
	}
}
