package step

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/terminal"
)

func TestFailedStepShowsTheEndOfItsDetailAndTheHint(t *testing.T) {
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}

	l, err := New(out, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	err = l.Do("first", "", func(w io.Writer) error { fmt.Fprintln(w, "of the first"); return nil })
	if err != nil {
		t.Fatal(err)
	}

	cause := errors.New("no space left")
	err = l.Do("second", "make room", func(w io.Writer) error {
		for i := range 100 {
			fmt.Fprintf(w, "line %d\n", i)
		}
		return cause
	})
	if !errors.Is(err, cause) || hint.Text(err) != "second: no space left\nhint: make room" {
		t.Errorf("error %q", err)
	}

	shown, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}

	for text, want := range map[string]bool{
		"first ":       true,
		"of the first": false,
		"line 99":      true,
		"line 10\n":    false,
		"log)":         true,
	} {
		if strings.Contains(string(shown), text) != want {
			t.Errorf("%q shown: %v, want %v\n%s", text, !want, want, shown)
		}
	}
}

func TestFullDiskHasItsOwnHint(t *testing.T) {
	tests := []struct {
		name, detail string
		err          error
		want         string
	}{
		{"we write", "", fmt.Errorf("write image: %w", syscall.ENOSPC), full},
		{
			"a tool writes",
			"cp: error writing 'b': No space left on device\n",
			errors.New("exit status 1"),
			full,
		},
		{"another error", "", errors.New("exit status 1"), "look elsewhere"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			out, err := os.Create(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}

			l, err := New(out, filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()

			err = l.Do("step", "look elsewhere", func(w io.Writer) error {
				fmt.Fprint(w, tt.detail)
				return tt.err
			})
			if !errors.Is(err, tt.err) || hint.Of(err) != tt.want {
				t.Errorf("error %q, want hint %q", err, tt.want)
			}
		})
	}
}

// A line that is drawn again on a terminal that wraps it would fill the screen.
func TestARunningStepIsShownOnlyWhereItFits(t *testing.T) {
	for _, tt := range []struct {
		columns int
		term    string
		want    bool
	}{
		{0, "xterm", false}, {20, "xterm", false}, {30, "xterm", false}, {39, "xterm", false},
		{40, "xterm", false}, {57, "xterm", false}, {58, "xterm", true}, {80, "xterm", true},
		{80, "dumb", false},
	} {
		t.Run(fmt.Sprint(tt.columns, tt.term), func(t *testing.T) {
			t.Setenv("TERM", tt.term)
			if got := columns(terminal.Open(t, tt.columns, 25).Program) > 0; got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestARunningStepSaysHowFarItIs(t *testing.T) {
	const name = "reopen and check every claim"
	l := Log{columns: 80}
	without := l.running(name, 3*time.Second)
	l.Progress("verify", 1, 4)
	l.Progress("verify", 3, 4)
	with := l.running(name, 4*time.Second)
	l.columns = partWidth
	narrow := l.running(name, 4*time.Second)

	want := []string{
		"reopen and check every claim                      3 s ...",
		"reopen and check every claim                      4 s  verify 75 %",
		"reopen and check every claim                      4 s ...",
	}
	if diff := cmp.Diff(want, []string{without, with, narrow}); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
