package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/judge"
)

// TestDisksSayHowTheyAre has a node with an NVMe and a SATA disk beside its own,
// which is virtual and says nothing. The NVMe disk fails while the node runs.
func TestDisksSayHowTheyAre(t *testing.T) {
	judge.Long(t, "TestParse of agent/wear")
	parallel(t, 3*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))

	arguments := []string{"-device", "ahci,id=sata"}
	for name, device := range map[string]string{"nvme": "nvme", "ide": "ide-hd,bus=sata.0"} {
		file := filepath.Join(m.config.Dir, name+".disk")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, 1<<30); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments,
			"-drive", "if=none,format=raw,discard=unmap,id="+name+",file="+file,
			"-device", device+",id=disk-"+name+",drive="+name+",serial=S-"+name)
	}
	m.config.Arguments = arguments

	n := m.on(t, map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"),
		"loam.config":  string(readFile(t, "../../examples/hello.yaml")),
	})
	n.applied()
	n.shell()

	n.says(func(s status.Status) bool { return len(s.Disks) > 0 })
	disks := n.status().Disks
	if len(disks) != 2 || disks[0].Serial != "S-nvme" || disks[0].Used == nil ||
		disks[1].Serial != "S-ide" || disks[0].Problem+disks[1].Problem != "" {
		t.Fatalf("disks %+v", disks)
	}

	err := n.Command("qom-set", map[string]any{
		"path":     "/machine/peripheral/disk-nvme",
		"property": "smart_critical_warning",
		"value":    8,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.sh("systemctl restart loam-agent")
	n.says(func(s status.Status) bool {
		return len(s.Disks) > 0 && s.Disks[0].Code == fault.DiskFailing
	})
	if s := n.status(); s.Health != status.Degraded || !strings.Contains(s.Disks[0].Problem, "no longer takes writes") {
		t.Errorf("the node is %s, %s: %+v", s.Health, s.Reason, s.Disks)
	}

	// The state forgets on the disk what was deleted.
	n.sh("dd if=/dev/urandom of=/var/tmp/noise bs=1M count=64 conv=fsync 2>/dev/null")
	n.sh("rm /var/tmp/noise; sync -f /var; systemctl start fstrim.service")
	n.want("journalctl -u fstrim.service -o cat --no-pager | grep -c '^/var: .* trimmed'", "1")
	n.off()
}
