package journal

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// journalctl puts a program of that name in the path. It records its arguments
// in the returned file.
func journalctl(t *testing.T, script string) (arguments string) {
	t.Helper()
	dir := t.TempDir()
	arguments = filepath.Join(dir, "arguments")
	text := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + arguments + "\n" + script
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return arguments
}

func TestLast(t *testing.T) {
	long := strings.Repeat("x", 300)

	for _, tt := range []struct{ name, script, want string }{
		{"a line", "echo cannot open /etc/a", "cannot open /etc/a"},
		{"an entry of several lines", "printf 'panic: nil\\ngoroutine 1\\n'", "panic: nil"},
		{"an entry that commands a terminal", "printf 'a\\033[2Jb\\n'", "a [2Jb"},
		{"a long line", "echo " + long, long[:200] + " ..."},
		{"no entry", "", ""},
		{"no journal", "echo none >&2; exit 1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			journalctl(t, tt.script)
			if got := Last(t.Context(), "a.service", time.Minute); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestLastReadsWhatTheUnitLoggedSince(t *testing.T) {
	file := journalctl(t, "")
	Last(t.Context(), "a.service", 1500*time.Millisecond)

	arguments, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--boot", "--since=-2s", "_SYSTEMD_UNIT=a.service"} {
		if !strings.Contains(string(arguments), want+"\n") {
			t.Errorf("no %s in\n%s", want, arguments)
		}
	}
}

// TestAnEntryOfAnySizeIsNotReadInFull reads from a program that would never end.
func TestAnEntryOfAnySizeIsNotReadInFull(t *testing.T) {
	got := firstLine(start(exec.CommandContext(t.Context(), "yes", strings.Repeat("a", 5000))))
	if want := strings.Repeat("a", maxLine) + " ..."; got != want {
		t.Errorf("%d bytes", len(got))
	}
}
