package progress

import (
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

func TestALineAPartWithoutATerminal(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, false, time.Second)
	for _, part := range []string{"write", "verify"} {
		for done := int64(1); done <= 4; done++ {
			bar.Update(part, done<<20, 4<<20)
		}
	}
	bar.Update("cut off", 1, 2)
	bar.Close()

	want := "write    100 %  4 MiB of 4 MiB  1 MB/s\nverify   100 %  4 MiB of 4 MiB  1 MB/s\n"
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
		"\rwrite    [##########          ]  50 %  20 MiB of 40 MiB  10 MB/s  2s left\x1b[K" +
		"\rwrite    [###############     ]  75 %  30 MiB of 40 MiB  8 MB/s  1s left\x1b[K" +
		"\rwrite    [####################] 100 %  40 MiB of 40 MiB  7 MB/s\x1b[K\n" +
		"\rverify   [#####               ]  25 %  10 MiB of 40 MiB\x1b[K\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
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

func TestALineIsCutToANarrowTerminal(t *testing.T) {
	var out strings.Builder
	bar := clocked(&out, true, time.Second)
	bar.columns = func() int { return 40 }
	bar.Update("write", 20<<20, 40<<20)
	bar.Close()

	const want = "\rwrite    [##########          ]  50 %  \x1b[K\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
