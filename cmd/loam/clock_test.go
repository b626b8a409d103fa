package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/clock/rtc"
	"github.com/loam-os/loam/hint/fault"
)

// wrongClock is a node that was started in 2038 once.
func wrongClock() rtc.Facts {
	return rtc.Facts{
		Now:      time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC),
		Built:    time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		Hardware: time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC),
		Recorded: time.Date(2038, 1, 19, 3, 13, 8, 0, time.UTC),
	}
}

func TestClockShowsWhatIsWrong(t *testing.T) {
	var out bytes.Buffer
	if err := writeClock(&out, "text", wrongClock()); err != nil {
		t.Fatal(err)
	}
	want := `clock     2038-01-19 03:14:08 UTC, not set by a time server in this boot
hardware  2026-11-26 06:00:00 UTC
recorded  2038-01-19 03:13:08 UTC
problem   the hardware's clock says 2026-11-26, and the node uses 2038-01-19, as it has recorded a later time than the hardware's; a time server corrects it
hint      if the hardware's clock is right: ` + "`loam clock --from-hardware`\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	out.Reset()
	right := rtc.Facts{Now: wrongClock().Hardware, Synchronized: true}
	if err := writeClock(&out, "text", right); err != nil {
		t.Fatal(err)
	}
	want = "clock     2026-11-26 06:00:00 UTC, set by a time server\nhardware  none\nrecorded  none\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClockForPrograms(t *testing.T) {
	facts := wrongClock()
	facts.Recorded = time.Time{}
	facts.Synchronized = true
	facts.Now = facts.Now.In(time.FixedZone("", 3600))
	var out bytes.Buffer
	if err := writeClock(&out, "json", facts); err != nil {
		t.Fatal(err)
	}
	want := `{
  "now": "2038-01-19T03:14:08Z",
  "synchronized": true,
  "hardware": "2026-11-26T06:00:00Z"
}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClockIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	facts := wrongClock()
	writeFile(t, filepath.Join(dir, rtc.Recorded), "")
	if err := os.Chtimes(filepath.Join(dir, rtc.Recorded), facts.Recorded, facts.Recorded); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	var set time.Time
	setClock := func(to time.Time) error {
		set = to
		return nil
	}
	var out bytes.Buffer
	if err := resetClock(&out, "text", root, facts, setClock); err != nil {
		t.Fatal(err)
	}
	info, err := root.Stat(rtc.Recorded)
	if err != nil || !info.ModTime().Equal(facts.Hardware) || !set.Equal(facts.Hardware) {
		t.Errorf("set to %s, recorded %v, %v", set, info, err)
	}
	want := "the clock was 2038-01-19 03:14:08 UTC and is 2026-11-26 06:00:00 UTC\n" +
		"`systemctl reboot` renews what was issued meanwhile, such as the tokens of pods\n"
	if out.String() != want {
		t.Errorf("printed %q", out.String())
	}

	facts.Synchronized = true
	if err := resetClock(&out, "text", root, facts, setClock); fault.Of(err) != fault.ClockUnfit {
		t.Errorf("a clock that a time server has set: %v", err)
	}
}
