package journal

import (
	"context"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loam-os/loam/agent/printable"
)

func TestTail(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         []string
	}{
		{"two entries", `printf 'one\ntwo\n'`, []string{"one", "two"}},
		{"no more than there should be", `printf 'one\ntwo\nthree\n'`, []string{"one", "two"}},
		{"an entry of two lines", `printf 'one\n    more\n'`, []string{"one", "more"}},
		{"codes for a terminal", `printf 'a\033[2J\302\233b\n'`, []string{"a [2J b"}},
		{"no end of line", "printf one", []string{"one"}},
		{"an error after an entry", "echo one; exit 1", []string{"one"}},
		{"no entry", "", nil},
		{"no journal", "exit 1", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			journalctl(t, test.script)
			if got := Tail(t.Context(), Query{Lines: 2}); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestBootID(t *testing.T) {
	file := journalctl(t, `echo '{"_BOOT_ID":"1f"}'`)
	if got := BootID(t.Context(), "/mnt", -1); got != "1f" {
		t.Errorf("%q", got)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--boot=-1", "--lines=1", "--root=/mnt"} {
		if !slices.Contains(strings.Split(string(text), "\n"), want) {
			t.Errorf("no %s in %q", want, text)
		}
	}

	for _, script := range []string{"", "echo none", "exit 1"} {
		journalctl(t, script)
		if got := BootID(t.Context(), "", -1); got != "" {
			t.Errorf("%q of %q", got, script)
		}
	}
}

// TestAnEntryOfAnySizeIsNotKept reads entries of 400 MB, on one line and on many,
// each with a short one before and after it.
func TestAnEntryOfAnySizeIsNotKept(t *testing.T) {
	const size = 400 << 20
	for name, line := range map[string]string{
		"on one line":   strings.Repeat("a", 1<<10),
		"on many lines": "    " + strings.Repeat("a", 1<<10) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := io.MultiReader(strings.NewReader("before\nentry "),
				io.LimitReader(endless(line), size), strings.NewReader("\nafter\n"))

			var had, have runtime.MemStats
			runtime.ReadMemStats(&had)
			got := entries(t.Context(), text)
			runtime.ReadMemStats(&have)

			if took := have.TotalAlloc - had.TotalAlloc; took > 1<<20 {
				t.Errorf("%d bytes of memory", took)
			}
			if len(got) != 3 || got[0] != "before\n" || got[2] != "after\n" {
				t.Fatalf("%d entries", len(got))
			}
			if len(got[1]) != printable.Most+len(cutMark) || !strings.HasSuffix(got[1], cutMark) {
				t.Errorf("%d bytes of the entry", len(got[1]))
			}
		})
	}
}

// TestAJournalThatHangsStopsNoReader has journalctl print an entry and then
// nothing more, as on a disk that does not answer.
func TestAJournalThatHangsStopsNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), ReadTimeout)
		defer cancel()
		out, in := io.Pipe()
		defer in.Close()
		go func() { _, _ = io.WriteString(in, "one\ntwo\n") }()

		if got := entries(ctx, out); !slices.Equal(got, []string{"one\n"}) {
			t.Errorf("%q", got) // Whether the second one has ended, nothing says.
		}
	})
}

// entries returns all entries in a text that is read before ctx ends.
func entries(ctx context.Context, text io.Reader) []string {
	found := make(chan string)
	go func() {
		defer close(found)
		send(ctx, found, text)
	}()
	return collect(ctx, found, 1<<20)
}

// endless is a reader of a text again and again.
type endless string

func (e endless) Read(into []byte) (int, error) {
	n := 0
	for n+len(e) <= len(into) {
		n += copy(into[n:], e)
	}
	return max(n, copy(into, e)), nil
}
