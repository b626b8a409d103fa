package boot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/records"
)

func TestOnTrial(t *testing.T) {
	const hash = "abc"

	for _, test := range []struct {
		name, journal string
		want          bool
	}{
		{"no upgrade", "", false},
		{
			"the system that was armed",
			`{"phase": "armed", "target": {"version": "2", "rootHash": "abc"}, "attempt": 1}`,
			true,
		},
		{
			"the system before it",
			`{"phase": "armed", "target": {"rootHash": "def"}, "from": {"rootHash": "abc"}}`,
			false,
		},
		{"one that is not armed", `{"phase": "staging", "target": {"rootHash": "abc"}}`, false},
		{"a torn journal", `{"phase": "arm`, false},
	} {
		state := fstest.MapFS{}
		if test.journal != "" {
			state["upgrade.json"] = &fstest.MapFile{Data: []byte(test.journal)}
		}
		if got := onTrial(state, hash); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// kept is a records.Store that only reads.
type kept struct {
	records.Store
	fstest.MapFS
}

func (k kept) Read(name string) ([]byte, error) { return k.ReadFile(name) }

// TestOnTrialReadsTheJournal has the package that writes it read and write it,
// too.
func TestOnTrialReadsTheJournal(t *testing.T) {
	system := upgrade.System{Version: "2", RootHash: "abc"}
	text, err := json.Marshal(upgrade.Journal{
		Phase:  upgrade.Armed,
		Target: system,
		From:   upgrade.System{RootHash: "def"},
	})
	if err != nil {
		t.Fatal(err)
	}

	state := fstest.MapFS{"upgrade.json": {Data: text}}
	j, err := upgrade.ReadJournal(kept{MapFS: state})
	if err != nil || j == nil || j.Target != system || !onTrial(state, system.RootHash) {
		t.Errorf("journal %v, error %v, on trial %v", j, err, onTrial(state, system.RootHash))
	}
}

func TestATrialIsSupervisedUntilItsEnd(t *testing.T) {
	run := t.TempDir()
	if err := superviseTrial(run); err != nil {
		t.Fatal(err)
	}

	name := filepath.Join(run, "systemd/system/loam-agent.service.d/50-loam-trial.conf")
	if text, err := os.ReadFile(name); err != nil || string(text) != trialUnit {
		t.Errorf("%q %v", text, err)
	}

	for range 2 {
		if err := EndTrial(run); err != nil {
			t.Error(err)
		}
	}

	if _, err := os.Stat(name); err == nil {
		t.Error("it is still there")
	}
}
