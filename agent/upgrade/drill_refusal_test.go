package upgrade

import (
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint"
)

// After a rollback the other slot has the newer system, which the loader would
// take for the one to fall back to.
func TestADrillAfterARollbackSaysTheWayOut(t *testing.T) {
	entry := func(version, rootHash string) disk.Entry {
		name := bootentry.Name{
			ImageID: "loam-node-os",
			Version: version,
			Arch:    bootentry.Arch("amd64"),
		}

		return disk.Entry{
			Name:     name,
			File:     "loam-node-os_" + version + "_x86-64.efi",
			RootHash: rootHash,
		}
	}

	err := preflightDrill(View{
		Running: System{Version: "0.1.0", RootHash: "old"},
		Entries: []disk.Entry{entry("0.2.0", "new"), entry("0.1.0", "old")},
	}, Facts{})
	if err == nil {
		t.Fatal("no refusal")
	}

	text := hint.Text(err)
	for _, want := range []string{
		"the other slot has 0.2.0, as after a rollback",
		"instead of to the running 0.1.0",
		"`loam rollback --os` starts 0.2.0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: want %q", text, want)
		}
	}
}
