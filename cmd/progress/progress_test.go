package progress

import (
	"fmt"
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

	want := "write     12 %  2 MiB of 16 MiB  1 MB/s  14s left\n" +
		"write     75 %  12 MiB of 16 MiB  1 MB/s  4s left\n" +
		"write    100 %  16 MiB of 16 MiB  1 MB/s\n" +
		"verify    12 %  2 MiB of 16 MiB  1 MB/s  14s left\n" +
		"verify    75 %  12 MiB of 16 MiB  1 MB/s  4s left\n" +
		"verify   100 %  16 MiB of 16 MiB  1 MB/s\n"
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

	want := "\rwrite    [#####               ]  25 %  10 MiB of 40 MiB\x1b[K" +
		"\rwrite    [##########          ]  50 %  20 MiB of 40 MiB  5 MB/s  4s left\x1b[K" +
		"\rwrite    [###############     ]  75 %  30 MiB of 40 MiB  5 MB/s  2s left\x1b[K" +
		"\rwrite    [####################] 100 %  40 MiB of 40 MiB  5 MB/s\x1b[K\n" +
		"\rverify   [#####               ]  25 %  10 MiB of 40 MiB\x1b[K\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
	}
}

func TestRateOfWorkThatGoesOnWhereItWas(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, false, 10*time.Second)
	bar.Update("root", 60<<20, 100<<20)
	bar.Update("root", 80<<20, 100<<20)

	const want = "root      80 %  80 MiB of 100 MiB  2 MB/s  10s left\n"
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
		{"on a terminal", true, "\rverify   [##########          ]  50 %  1 MiB of 2 MiB" +
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

func TestRate(t *testing.T) {
	for rate, want := range map[float64]string{
		2_400_000: "2 MB/s",
		640_000:   "640 kB/s",
	} {
		if have := formatRate(rate); have != want {
			t.Errorf("%v: %s, want %s", rate, have, want)
		}
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
		{60, "0.2.0 root  50 %  20 MiB of 40 MiB  10 MB/s  2s left"},
		{80, "0.2.0 root [##########          ]  50 %  20 MiB of 40 MiB  10 MB/s  2s left"},
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
	const want = "\rwrite    [####################] 100 %  40 MiB of 40 MiB  41 MB/s\x1b[K\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
