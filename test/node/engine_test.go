package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
)

// dying is a unit as service makes it that starts, and fails two seconds later.
func dying(name string) string {
	return strings.Replace(service(name), "/usr/bin/sleep infinity",
		"/usr/bin/sh -c 'sleep 2; exit 7'", 1)
}

// proven waits until the last change has its verdict.
func (n *node) proven() {
	n.t.Helper()
	n.sh("while test -e /var/lib/loam/journal.json; do sleep 0.3; done")
	n.sh("loam verify --repair=false >/dev/null") // It waits for what comes after the verdict.
}

// TestNodeGoesBack is what a node does about changes that are bad, on trial,
// or made behind its back.
func TestNodeGoesBack(t *testing.T) {
	parallel(t, 3*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch,
		"source: {file: {path: "+watched+"}}\n")})
	n.shell()
	files := file("/etc/demo/one", "1") + file("/var/lib/demo/real", "real")
	n.write(watched, header+service("one")+"  files:\n"+files)
	good := n.applied()
	n.proven()

	t.Run("what something else changes is repaired", func(t *testing.T) {
		n.t = t
		n.sh("rm /etc/demo/one; echo drift >/var/lib/demo/real; " +
			"rm -r /etc/systemd/system/multi-user.target.wants/one.service; " +
			"mv /etc/demo /etc/moved")
		n.sh("until test \"$(cat /etc/demo/one)$(cat /var/lib/demo/real)\" = 1real && test -L " +
			"/etc/systemd/system/multi-user.target.wants/one.service; do sleep 0.1; " +
			"done 2>/dev/null")

		n.want("echo through >/etc/demo/one; true", "bash: /etc/demo/one: Read-only file system")
		n.says(func(s status.Status) bool {
			return s.Drift.Repaired > 2 && s.Phase == status.Applied
		})

		out := n.sh("loam verify >/dev/null; loam verify")
		if !strings.HasSuffix(out, ": all as they should be") {
			t.Errorf("verify: %s", out)
		}
	})

	t.Run("a unit that fails after it started takes the change back", func(t *testing.T) {
		n.t = t
		n.write(watched, header+dying("one")+service("two")+"  files:\n"+
			strings.Replace(files, "\"1\"", "\"2\"", 1)+file("/etc/demo/two", "2"))
		n.expect(regexp.MustCompile(`was taken back`))
		n.want("cat /etc/demo/one; systemctl is-active one.service; "+
			"systemctl show -P LoadState two.service", "1active\nnot-found")

		n.says(func(s status.Status) bool {
			return s.Generation == good && s.Phase == status.Failed && s.Error.Hint != ""
		})

		n.want("loam history | grep -c reverted", "1")
		n.want("touch "+watched+"; sleep 2; ls /var/lib/loam/generations | wc -l", "2")
	})

	t.Run("a trial that is not confirmed ends", func(t *testing.T) {
		n.t = t
		n.write("/run/try.yaml",
			header+service("one")+"  files:\n"+strings.Replace(files, "\"1\"", "\"3\"", 1))
		n.sh("loam apply --try 25s /run/try.yaml")
		n.want("cat /etc/demo/one", "3")
		n.sh("until test $(cat /etc/demo/one) = 1; do sleep 0.5; done")
		n.says(func(s status.Status) bool { return s.Generation == good && s.Change == nil })
	})

	whole := t // The machine of this test outlives its subtests.
	t.Run("a trial does not outlive a power cut", func(t *testing.T) {
		n.t = t
		n.sh("loam apply --try 1h /run/try.yaml; sync")
		n.want("cat /etc/demo/one", "3")
		n.sh("echo drift >/etc/drift; echo changed >/etc/hosts; sync")

		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}

		m.tool("qemu-img", "resize", "-q", m.config.Disk, "16G")
		n = m.on(whole, map[string]string{"loam.machine": machineYAML(b.manifest.Arch,
			"kernel: {modules: [sctp, btrfs], ioUring: true}\n")})
		n.t = t
		n.expect(regexp.MustCompile(`verified, generation ` + good))
		n.shell()
		n.sh("until loam status >/dev/null 2>&1; do sleep 0.3; done")
		n.proven()
		n.want("cat /etc/demo/one; systemctl is-active one.service", "1active")
		n.want("loam history -o json | grep -c '\"reason\".*restarted before it was confirmed'",
			"1")
	})

	t.Run("without a source and on a larger disk, all is there", func(t *testing.T) {
		n.t = t
		n.isOpen()
		n.want("stat -Lc %a /etc/demo/one; ls /etc/drift 2>&1; true",
			"644\nls: cannot access '/etc/drift': No such file or directory")
		n.want("grep -c changed /etc/hosts; true", "0")
		n.want("cat /etc/machine-id | wc -c", "33")

		kib, _ := strconv.Atoi(n.sh("df --output=size -k /var | tail -1 | tr -d ' '"))
		if kib < 12<<20 {
			t.Errorf("/var has %d KiB of a disk of 16 GiB", kib)
		}
	})

	t.Run("an operator rolls back and forth", func(t *testing.T) {
		n.t = t
		n.sh("loam apply /run/try.yaml 2>/dev/null || true")
		n.write("/run/try.yaml",
			header+service("one")+"  files:\n"+strings.Replace(files, "\"1\"", "\"4\"", 1))
		n.sh("loam apply /run/try.yaml")
		n.want("cat /etc/demo/one", "4")
		n.sh("loam rollback " + strings.TrimLeft(strings.Split(good, "-")[0], "0"))
		n.want("cat /etc/demo/one; systemctl is-active one.service", "1active")
		n.want("loam diff 1 current | grep -c 'are the same'", "1")
	})

	n.t = t
	n.off()

	raw := filepath.Join(m.config.Dir, "disk.raw")
	m.tool("qemu-img", "convert", "-O", "raw", m.config.Disk, raw)
	defer os.Remove(raw)
	out := m.tool("sfdisk", "--verify", raw)
	if !strings.Contains(out, "No errors detected.") {
		t.Errorf("sfdisk: %s", out)
	}
}
