package node

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
)

// guidsOf prints the GUIDs of a disk and of its ESP, where UEFI 5.3 has them.
const guidsOf = `for at in 568 1040; do od -An -tx1 -j$at -N16 /dev/%s | tr -d ' \n'; done`

// TestAnUpgradeFromAnEarlyVersion has machines that run the builds in
// LOAM_EARLY_BUILDS, and got their machine.yaml from a drive, upgrade to the next
// version. Those builds knew neither the drive that a node had nor, the first of
// them, a disk's own UUIDs. Then come strangers' drives and a copy of the old image.
func TestAnUpgradeFromAnEarlyVersion(t *testing.T) {
	builds := strings.Fields(os.Getenv("LOAM_EARLY_BUILDS"))
	if len(builds) == 0 {
		t.Skip("needs builds of early versions, which make upgrades-from makes")
	}

	v2 := next(t)
	for _, dir := range builds {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(dir))), func(t *testing.T) {
			u := v2.publish(t, nil)
			current := open(t)
			early := build{dir: dir, manifest: current.manifest, tools: current.tools}
			m := early.flash(t, early.file(".raw"))
			m.config.Host = true
			m.config.NoReboot = true
			yaml := machineYAML(current.manifest.Arch,
				"source: {credential: {name: loam.config}}\n"+u.machineYAML())
			stranger := strings.Replace(yaml, "hostname: hello", "hostname: stranger", 1)
			n := &upgradable{machine: m, credentials: map[string]string{
				"loam.config": string(readFile(t, "../../examples/hello.yaml")),
			}}
			n.unlayer()
			m.arguments(
				"-drive", "if=none,id=disk,format=raw,cache=unsafe,file="+m.config.Disk,
				"-device", "virtio-blk-pci,addr=0x1e,drive=disk,bootindex=1",
			)
			m.config.Disk = ""

			m.fat("LOAM", "machine.yaml", yaml)
			m.fat("CIDATA", "machine.yaml", stranger)
			alone := m.config.Arguments
			attached := func(drives ...string) {
				m.config.Arguments = append([]string{}, alone...)
				for i, name := range drives {
					m.arguments("-device", fmt.Sprintf(
						"virtio-blk-pci,addr=%#x,drive=%s,serial=S-%[2]s", 0x10+i, name))
				}
			}
			is := func(machine, guids string) {
				t.Helper()
				n.says(func(s status.Status) bool {
					return s.Phase == status.Applied && s.Hostname == "hello" && s.Machine == machine
				})
				disk := n.sh(`sed -n 's/.*"state":"\/dev\/\([a-z]*\).*/\1/p' /run/loam/boot.json`)
				if got := n.sh(fmt.Sprintf(guidsOf, disk)); guids != "" && got != guids {
					t.Errorf("UUIDs %s, want %s", got, guids)
				}
				n.want("cat /var/lib/ours", "ours")
			}
			const own, kept = "machine.yaml of drive /dev/vda (LOAM)",
				"machine.yaml of drive /dev/vda (LOAM), kept copy"

			attached("LOAM")
			n.start()
			n.applied()
			n.up()
			first := n.status().ImageVersion
			n.sh("echo ours >/var/lib/ours; sync")
			before := n.sh(fmt.Sprintf(guidsOf, "vdb"))
			image := imageGUIDs(t, early)
			t.Logf("UUIDs of the image %s, of the disk %s", image, before)

			n.sh("loam upgrade --stay --now")
			n.reboot()
			n.boots(v2.manifest.Version, "b")
			n.up()
			n.says(func(s status.Status) bool { return s.Upgrade != nil && s.Upgrade.Phase == "" })
			is(own, before) // A trial changes no UUIDs.

			n.reboot()
			n.up()
			is(kept, "")
			after := n.sh(fmt.Sprintf(guidsOf, "vdb"))
			if strings.Contains(after, image[:32]) || strings.Contains(after, image[32:]) {
				t.Errorf("UUIDs %s are the image's still", after)
			}
			if before != image && after != before {
				t.Errorf("UUIDs %s, and %s before", after, before)
			}

			for _, drives := range [][]string{{"CIDATA"}, {"CIDATA", "LOAM"}, nil} {
				attached(drives...)
				n.reboot()
				n.up()
				is(kept, after)
			}

			attached("LOAM")
			twin := filepath.Join(m.config.Dir, "twin.qcow2")
			m.tool("qemu-img", "create", "-q", "-f", "qcow2", "-b", early.file(".raw"), "-F", "raw",
				twin, "4G")
			m.twin("virtio-blk-pci,addr=0x12,drive=%s", "twin", "qcow2", twin)
			n.reboot()
			n.up()
			is(kept, after)

			// The way back, to a version that knows of none of this, and again.
			attached("LOAM")
			n.sh("loam rollback --os --stay")
			n.reboot()
			n.boots(first, "a")
			n.up()
			is(own, after)
			n.says(func(s status.Status) bool { return s.Upgrade != nil && s.Upgrade.Phase == "" })
			n.sh("loam rollback --os --stay")
			attached("CIDATA")
			n.reboot()
			n.boots(v2.manifest.Version, "b")
			n.up()
			is(kept, after)
			n.off()
		})
	}
}

// imageGUIDs are what guidsOf prints of a disk with nothing but the build's image.
func imageGUIDs(t *testing.T, b build) string {
	t.Helper()
	head := make([]byte, 2048)
	raw, err := os.Open(b.file(".raw"))
	if err == nil {
		_, err = io.ReadFull(raw, head)
		err = errors.Join(err, raw.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(head[568:584]) + hex.EncodeToString(head[1040:1056])
}
