package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/test/judge"
)

// TestANodeWhoseBootEntryIsGone: the recovery entry starts the node, which
// makes its own entry again and is started by that, although a power cut has
// corrupted the superblock of its state partition meanwhile.
func TestANodeWhoseBootEntryIsGone(t *testing.T) {
	judge.Long(t, "TestTheRecoveryEntryIsTheLastResort of test/firmware")
	parallel(t, 3*time.Minute)
	m := damaged(t, func(m *machine, disk *os.File) {
		m.tool("mdel", "-i", fmt.Sprintf("%s@@%d", disk.Name(), m.partition(esp)),
			"::"+m.build.manifest.UKI)
	})

	entries := func() string {
		out := m.tool("mdir", "-b", "-i", fmt.Sprintf("%s@@%d", m.config.Disk, m.partition(esp)),
			"::"+bootentry.Dir)
		return strings.Join(strings.Fields(out), " ")
	}
	if strings.Contains(entries(), ".efi") {
		t.Fatalf("entries: %s", entries())
	}

	for range 2 {
		n := m.on(t, map[string]string{"loam.machine": machineYAML(m.build.manifest.Arch, "")})
		n.shell()

		n.says(func(s status.Status) bool {
			return s.Upgrade != nil && s.Upgrade.Phase == "" && s.Upgrade.Problem == ""
		})

		n.off()
		if want := filepath.Base(m.build.manifest.UKI); !strings.Contains(entries(), want) {
			t.Fatalf("entries: %s, want %s", entries(), want)
		}

		disk, err := os.OpenFile(m.config.Disk, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}

		// how often it was mounted, which is in the first of its two sectors
		flip(t, disk, m.partition(state)+1024+0x34)
		if err := disk.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
