package agent

import (
	"os"
	"path/filepath"
	"testing"
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
