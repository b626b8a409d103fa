package agent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"
)

// TestARestartIsDueUntilItIsNot follows /run/reboot-required, in which others write,
// too.
func TestARestartIsDueUntilItIsNot(t *testing.T) {
	const other = "*** System restart required ***\n"
	for _, tt := range []struct {
		name, before, version, after string
	}{
		{"none", "", "", ""},
		{"ready", "", "2.0.0", "Loam 2.0.0 is ready: the next restart tries it\n"},
		{"another one", "Loam 2.0.0 is ready\n", "3.0.0",
			"Loam 3.0.0 is ready: the next restart tries it\n"},
		{"canceled", "Loam 2.0.0 is ready\n", "", ""},
		{"of others", other, "", other},
		{"of others, and ready", other, "2.0.0", other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "reboot-required")
			if tt.before != "" {
				if err := os.WriteFile(name, []byte(tt.before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := sayRestart(dir, tt.version); err != nil {
				t.Fatal(err)
			}

			text, err := os.ReadFile(name)
			if string(text) != tt.after || os.IsNotExist(err) != (tt.after == "") {
				t.Errorf("have %q (%v), want %q", text, err, tt.after)
			}
		})
	}

	if err := sayRestart(filepath.Join(t.TempDir(), "absent"), "2.0.0"); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestATouchedFileIsWrittenAndStaysOtherwise has an empty file, by which people ask
// kured for a restart.
func TestATouchedFileIsWrittenAndStaysOtherwise(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "reboot-required")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"":      "",
		"2.0.0": "Loam 2.0.0 is ready: the next restart tries it\n",
	} {
		if err := sayRestart(dir, version); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if string(text) != want || err != nil {
			t.Errorf("version %q: have %q (%v), want %q", version, text, err, want)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheFileIsReplacedAtOnce holds the one before open: a reader sees one of the two
// texts, whatever happens meanwhile.
func TestTheFileIsReplacedAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := sayRestart(dir, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(filepath.Join(dir, "reboot-required"))
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()

	if err := sayRestart(dir, "3.0.0"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(before)
	if !strings.HasPrefix(string(text), "Loam 2.0.0 ") || err != nil {
		t.Errorf("the file that was open has %q (%v)", text, err)
	}
	left, err := os.ReadDir(dir)
	if len(left) != 1 || err != nil {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestAFileOfAnotherKindStaysAndIsLoggedOnce has others put something else there.
func TestAFileOfAnotherKindStaysAndIsLoggedOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		put  func(name string) error
	}{
		{"a FIFO", func(name string) error { return unix.Mkfifo(name, 0o644) }},
		{"a directory", func(name string) error { return os.Mkdir(name, 0o755) }},
		{"a link to a file", func(name string) error { return os.Symlink("target", name) }},
		{"a link to nothing", func(name string) error { return os.Symlink("absent", name) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "reboot-required")
			const ours = "Loam 1.0.0 is ready\n"
			err := os.WriteFile(filepath.Join(dir, "target"), []byte(ours), 0o644)
			if err := errors.Join(err, tt.put(name)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(name)
			if err != nil {
				t.Fatal(err)
			}

			core, logged := observer.New(zap.InfoLevel)
			due := &dueFile{run: dir, log: zap.New(core)}
			for range 3 {
				due.say("2.0.0")
			}
			if all := logged.All(); len(all) != 1 {
				t.Errorf("logged %v", all)
			}
			due.say("")
			if logged.Len() != 1 {
				t.Errorf("logged %v", logged.All())
			}

			after, err := os.Lstat(name)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("have %v, want %v: %v", after, before, err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "target")); string(text) != ours || err != nil {
				t.Errorf("behind the link: %q (%v)", text, err)
			}
		})
	}
}
