package progress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clocked returns a bar whose clock advances by a step with each update.
func clocked(out *strings.Builder, terminal bool, step time.Duration) *Bar {
	at := time.Unix(0, 0)
	return &Bar{
		out:      out,
		terminal: terminal,
		columns:  func() int { return 80 },
		now:      func() time.Time { at = at.Add(step); return at },
	}
}

func TestALineNowAndThenWithoutATerminal(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, false, time.Second)
	for _, part := range []string{"write", "verify"} {
		for done := int64(1); done <= 16; done++ {
			bar.Update(part, done<<20, 16<<20)
		}
	}
	bar.Update("cut off", 1, 2)
	bar.Close()

	want := "write     12 %   2.0 of 16.0 MiB   1.0 MiB/s  14s left\n" +
		"write     75 %  12.0 of 16.0 MiB   1.0 MiB/s  4s left\n" +
		"write    100 %  16.0 of 16.0 MiB   1.0 MiB/s  in 15s\n" +
		"verify    12 %   2.0 of 16.0 MiB   1.0 MiB/s  14s left\n" +
		"verify    75 %  12.0 of 16.0 MiB   1.0 MiB/s  4s left\n" +
		"verify   100 %  16.0 of 16.0 MiB   1.0 MiB/s  in 15s\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestABarInPlaceOnATerminal(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, true, 2*time.Second)
	for done := int64(1); done <= 4; done++ {
		bar.Update("write", done*10<<20, 40<<20)
	}
	bar.Update("verify", 10<<20, 40<<20)
	bar.Close()
	bar.Close()

	want := "\rwrite    [#####               ]  25 %  10.0 of 40.0 MiB\x1b[K" +
		"\rwrite    [##########          ]  50 %  20.0 of 40.0 MiB   5.0 MiB/s  4s left\x1b[K" +
		"\rwrite    [###############     ]  75 %  30.0 of 40.0 MiB   5.0 MiB/s  2s left\x1b[K" +
		"\rwrite    [####################] 100 %  40.0 of 40.0 MiB   5.0 MiB/s  in 6s\x1b[K\n" +
		"\rverify   [#####               ]  25 %  10.0 of 40.0 MiB\x1b[K\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
	}
}

func TestRateOfWorkThatGoesOnWhereItWas(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, false, 10*time.Second)
	bar.Update("root", 60<<20, 100<<20)
	bar.Update("root", 80<<20, 100<<20)

	const want = "root      80 %   80 of 100 MiB   2.0 MiB/s  10s left\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestWorkThatEndsAtOnceLeavesNoLine(t *testing.T) {
	for _, test := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{"elsewhere", false, ""},
		{"on a terminal", true, "\rverify   [##########          ]  50 %  1.0 of 2.0 MiB" +
			"\x1b[K\r\x1b[K"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			bar := clocked(&out, test.terminal, time.Millisecond)
			bar.Update("verify", 1<<20, 2<<20)
			bar.Update("verify", 2<<20, 2<<20)
			bar.Close()
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAHiddenBarIsDrawnAgain(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, true, time.Millisecond)
	bar.Hide()
	bar.Update("copy", 1, 1<<20)
	bar.Hide()
	out.Reset()
	bar.Update("copy", 2, 1<<20)
	if !strings.HasPrefix(out.String(), "\rcopy     [") {
		t.Errorf("drawn %q", out.String())
	}
}

func TestHideBringsNoLinesWithoutATerminal(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, false, time.Second)
	for done := int64(1); done < 10; done++ {
		bar.Update("copy", done, 20)
		bar.Hide()
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1 {
		t.Errorf("%d lines in 9 seconds:\n%s", lines, &out)
	}
}

func TestWordsOfALine(t *testing.T) {
	for _, row := range []struct{ have, want string }{
		{formatRate(2_400_000), " 2.3 MiB/s"},
		{formatRate(640_000), " 625 KiB/s"},
		{formatRate(300 << 20), " 300 MiB/s"},
		{formatAmount(1000, 5000), "1.0 of 4.9 KiB"},
		{formatAmount(5<<20, 150<<20), "  5 of 150 MiB"},
		{formatAmount(1<<29, 64<<30), " 0.5 of 64.0 GiB"},
		{formatTime(59 * time.Second), "59s"},
		{formatTime(125 * time.Second), "2m05s"},
		{formatTime(3*time.Hour + 4*time.Minute), "3h04m"},
	} {
		if row.have != row.want {
			t.Errorf("%q, want %q", row.have, row.want)
		}
	}
}

// lefts returns the time left after each second, in which so many bytes of all are
// done.
func lefts(all int64, seconds []int64) (times []time.Duration) {
	at := time.Unix(0, 0)
	done := int64(0)
	r := begin(at, done)
	for _, bytes := range seconds {
		at = at.Add(time.Second)
		done += bytes
		r.count(at, done)
		times = append(times, r.left(all-done))
	}
	return times
}

// repeat returns bytes as often as there are seconds.
func repeat(bytes int64, seconds int) []int64 {
	return slices.Repeat([]int64{bytes}, seconds)
}

func TestTimeLeftDoesNotJumpWithASecondOfSilence(t *testing.T) {
	times := lefts(100_000, append(repeat(1000, 30), 0, 1000))
	before, silent, after := times[29], times[30], times[31]
	if before != 70*time.Second {
		t.Errorf("%s left of a steady work, want 1m10s", before)
	}
	if silent < before || silent > 80*time.Second || after > silent {
		t.Errorf("%s left, %s after a second of silence, then %s", before, silent, after)
	}
}

func TestTimeLeftFollowsAnotherSpeed(t *testing.T) {
	times := lefts(1_000_000, append(repeat(10_000, 30), repeat(1000, 60)...))
	last := times[len(times)-1]
	if want := 640 * time.Second; last < want*9/10 || last > want {
		t.Errorf("%s left of 640 seconds at the new speed", last)
	}
}

func TestAStalledWorkHasNoTimeLeft(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, false, 20*time.Second)
	bar.Update("root", 0, 100<<20)
	bar.Update("root", 50<<20, 100<<20)
	bar.Update("root", 50<<20, 100<<20)

	const want = "root      50 %   50 of 100 MiB   2.5 MiB/s  20s left\n" +
		"root      50 %   50 of 100 MiB\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestABarIsNotDrawnAtEachUpdate(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, true, time.Millisecond)
	for done := int64(1); done <= 1000; done++ {
		bar.Update("write", done, 1000)
	}
	if drawn := strings.Count(out.String(), "\r"); drawn != 6 {
		t.Errorf("drawn %d times in a second, want 6", drawn)
	}
}

func TestALineFitsANarrowTerminal(t *testing.T) {
	for _, tt := range []struct {
		columns int
		want    string
	}{
		{0, ""},
		{1, ""},
		{8, "50 %"},
		{20, "0.2.0 root  50 %"},
		{30, "0.2.0 root  50 %  2s left"},
		{39, "0.2.0 root  50 %  2s left"},
		{40, "0.2.0 root  50 %  2s left"},
		{60, "0.2.0 root  50 %  20.0 of 40.0 MiB  10.0 MiB/s  2s left"},
		{80, "0.2.0 root [##########          ]  50 %  20.0 of 40.0 MiB  10.0 MiB/s  2s left"},
	} {
		t.Run(fmt.Sprint(tt.columns), func(t *testing.T) {
			var out strings.Builder
			bar := clocked(&out, true, time.Second)
			bar.columns = func() int { return tt.columns }
			bar.Update("0.2.0 root", 0, 40<<20)
			bar.Update("0.2.0 root", 10<<20, 40<<20)
			out.Reset()
			bar.Update("0.2.0 root", 20<<20, 40<<20)
			bar.Close()
			if diff := cmp.Diff("\r"+tt.want+"\x1b[K\n", out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMoreThanAllIsAll(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, true, time.Second)
	bar.Update("write", 1<<20, 40<<20)
	out.Reset()
	bar.Update("write", 50<<20, 40<<20)
	const want = "\rwrite    [####################] 100 %  40.0 of 40.0 MiB  39.0 MiB/s  in 1s\x1b[K\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
