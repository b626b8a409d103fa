package node

import (
	"os"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
)

// forgets are ways in which a firmware's variables are of no use as a memory:
// what they make of a machine before it is switched on.
var forgets = map[string]func(t *testing.T, n *upgradable){
	"they are fresh at each start": func(t *testing.T, n *upgradable) {
		n.prepare = n.keeps(t, n.machine)
	},
	"they belong to another disk": func(t *testing.T, n *upgradable) {
		v2 := next(t)
		v2.tools = n.build.tools
		other := v2.flash(t, v2.file(".raw"))
		on := other.on(t, nil)
		on.expect(verifiedLine)

		if err := on.Kill(); err != nil {
			t.Fatal(err)
		}

		n.prepare = n.keeps(t, other)
	},
	"they are read-only": func(_ *testing.T, n *upgradable) { n.config.ReadOnlyVars = true },
	"they are deleted before each restart": func(_ *testing.T, n *upgradable) {
		n.leave = "cd /sys/firmware/efi/efivars && chattr -i * 2>/dev/null; rm -f * 2>/dev/null; " +
			"cd /; ! ls /sys/firmware/efi/efivars | grep '^Boot0\\|^BootOrder'"
	},
}

// keeps has the machine start with the variables that another has now.
func (n *upgradable) keeps(t *testing.T, other *machine) (prepare func()) {
	vars := readFile(t, other.config.FirmwareVars)
	return func() {
		if err := os.WriteFile(n.config.FirmwareVars, vars, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgradesWithForgetfulFirmware falls back from a bad system, and goes on
// to a good one.
func TestUpgradesWithForgetfulFirmware(t *testing.T) {
	if os.Getenv("LOAM_ALL") == "" {
		t.Skip("takes minutes: make upgrades runs it")
	}

	v2 := next(t)
	bad := v2.publish(t, withCmdline("rdinit=/nothing")(t))
	good := v2.publish(t, nil)
	for name, forget := range forgets {
		t.Run(name, func(t *testing.T) {
			parallel(t, 6*time.Minute)
			n := prepareUpgradable(t, bad)
			forget(t, n)
			n.firstStart()
			n.sh("loam upgrade --stay")
			n.nowFrom(bad, good)
			n.fallsBack(v2.manifest.Version, "it did not say that it is well in 3 boots")
			n.sh("loam upgrade --again --now --stay")
			n.reboot()
			n.boots(v2.manifest.Version, "b")
			n.up()

			n.says(func(s status.Status) bool {
				return s.Upgrade.Phase == "" && s.Phase == status.Applied
			})

			n.off()
		})
	}
}
