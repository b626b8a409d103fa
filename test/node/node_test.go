package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/vm"
)

func machineYAML(arch, rest string) string {
	return "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: hello\n" +
		"debugShell: [" + vm.ShellTTY(arch) + "]\n" + rest
}

func TestNodeConfiguredByItsHypervisor(t *testing.T) {
	parallel(t, 2*time.Minute)
	b := open(t)
	hello := readFile(t, "../../examples/hello.yaml")
	m := b.flash(t, b.file(".raw"))
	var first status.Status
	t.Run("the first boot applies", func(t *testing.T) {
		n := m.on(t, map[string]string{
			"loam.machine": machineYAML(b.manifest.Arch,
				"source: {credential: {name: loam.config}}\n"),
			"loam.config": string(hello),
		})

		generation := n.applied()
		n.shell()

		first = n.status()
		if first.Generation != generation || first.Slot != "a" ||
			first.RootHash != b.manifest.RootHash || first.ImageVersion != b.manifest.Version {
			t.Errorf("status %+v", first)
		}

		if first.Phase != status.Applied || len(first.Units) != 5 || first.Hostname != "hello" {
			t.Errorf("status %+v", first)
		}

		n.want("stat -Lc '%a %U %G' /etc/hello/secret /etc/hello/greeting /opt/hello/bin/hello",
			"600 root root\n444 root root\n755 root root")
		n.want("cat /etc/hello/greeting /etc/hello/site", "Hello from\nsite=example")
		n.want("systemctl is-active hello.service hello-report.timer", "active\nactive")
		n.want(
			"systemctl is-enabled hello.service hello-report.timer hello-report.service 2>&1; true",
			"enabled\nenabled\nlinked",
		)

		n.want("systemctl show -P MemoryMax -P TasksMax hello.service", "33554432\n8")
		n.want("journalctl -b -u hello.service -o cat | grep Hello", "Hello from Loam")
		n.want("findmnt -no FSTYPE,OPTIONS / | tr -s ' ' | cut -d, -f1", "erofs ro")
		n.want("findmnt -no FSTYPE /etc; findmnt -no FSTYPE /var", "overlay\next4")
		n.want("loam boot --facts /run/loam/facts.json | grep -c "+b.manifest.RootHash[:32], "2")
		n.want("cut -d- -f1,2 /sys/block/dm-0/dm/uuid", "CRYPT-VERITY")
		n.want("touch /usr/x 2>&1; true", "touch: cannot touch '/usr/x': Read-only file system")
		n.want("getent hosts hello | tr -s ' '", "127.0.1.1 hello")
		n.want("systemctl is-active systemd-tmpfiles-clean.timer", "active")
		n.sh("mkdir -p /usr/libexec/kubernetes/kubelet-plugins/volume/exec/nodeagent")
		n.fillsUp()
		n.want("systemctl --failed --no-legend | wc -l", "0")
		n.off()
	})

	t.Run("without machine.yaml there is no shell, and the power button works", func(t *testing.T) {
		judge.Long(t, "TestFirstBootApplies of agent/loop, which opens no other shells")
		n := m.on(t, nil)
		if g := n.applied(); g != first.Generation {
			t.Errorf("generation %s, was %s", g, first.Generation)
		}

		n.next = 0
		n.expect(regexp.MustCompile(`host name +hello`))
		n.expect(regexp.MustCompile(`hello.service +active/running`))

		for _, l := range n.Console().Lines() {
			if strings.Contains(l.Text, "debug shell") {
				t.Errorf("console: %s", l.Text)
			}
		}

		n.pressPowerButton()
	})
}

// isOpen wants what machine.yaml opens of the kernel to be open, and the rest not.
func (n *node) isOpen() {
	n.t.Helper()
	n.want("sysctl -n kernel.io_uring_disabled kernel.unprivileged_userns_clone", "0\n0")
	n.want("for of in net-pf-2-proto-132 net-pf-15 fs-btrfs; do modprobe -R $of | tail -1; done",
		"sctp\noff\nbtrfs")
	n.want("mount -t btrfs none /mnt 2>/dev/null; mount -t romfs none /mnt 2>/dev/null; "+
		"cut -d ' ' -f 1 /proc/modules | grep -xE 'btrfs|romfs'", "btrfs")
}

// fillsUp takes all room of the state partition, and gives it back.
func (n *node) fillsUp() {
	n.t.Helper()
	n.sh("fallocate --length=$(df --output=avail --block-size=1 /var | tail -1) /var/all")
	n.want("loam status | grep --only-matching 'the state partition (/var) is full' | head -1; "+
		"loam status -o json | grep --count '\"code\": \"disk-full\"'",
		"the state partition (/var) is full\n1")
	n.sh("rm /var/all")
	n.want("loam status | grep --count 'is full'; true", "0")
}

const (
	header = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\n" +
		"spec:\n  units:\n"
	watched = "/var/lib/demo/config.yaml"
)

// service is a unit that runs until it is stopped, and restarts for one file.
func service(name string) string {
	return "  - name: " + name + ".service\n    filePaths: [/etc/demo/" + name + "]\n" +
		"    content: |\n      [Service]\n      ExecStart=/usr/bin/sleep infinity\n" +
		"      [Install]\n      WantedBy=multi-user.target\n"
}

func file(path, text string) string {
	return "  - path: " + path + "\n    permissions: 0644\n" +
		"    content: {inline: {data: \"" + text + "\"}}\n"
}

func TestNodeConfiguredByAFile(t *testing.T) {
	judge.Long(t, "TestNodeConfiguredByItsHypervisor, and agent/source")
	parallel(t, 2*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.config.Bus = "virtio-scsi"
	m.cdrom(m.cidata(machineYAML(b.manifest.Arch, "source: {file: {path: "+watched+"}}\n"), ""))
	n := m.on(t, nil)
	n.shell()

	if s := n.status(); s.Phase != status.Waiting {
		t.Errorf("phase %s before there is a file", s.Phase)
	}

	units := []string{"one.service", "two.service"}
	n.write(watched, header+service("one")+service("two")+"  files:\n"+file("/etc/demo/one", "1")+
		file("/etc/demo/two", "1"))
	n.applied()
	before := n.invocations(units...)

	n.write(watched, header+service("one")+service("two")+"  files:\n"+file("/etc/demo/one", "2")+
		file("/etc/demo/two", "1"))
	n.applied()
	after := n.invocations(units...)
	n.want("cat /etc/demo/one", "2")

	if after["one.service"] == before["one.service"] ||
		after["two.service"] != before["two.service"] {
		t.Errorf("a file of one.service changed: %v, before %v", after, before)
	}

	good := header + service("one") + "  files:\n" + file("/etc/demo/one", "2")
	n.write(watched, good)
	last := n.applied()
	n.want("systemctl show -P LoadState -P ActiveState two.service", "not-found\ninactive")
	n.want("find /etc -name 'two*'; ls /etc/demo", "one")

	if now := n.invocations("one.service"); now["one.service"] != after["one.service"] {
		t.Error("one.service was restarted although nothing of it changed")
	}

	t.Run("bad input changes nothing", func(t *testing.T) { badInput(n, good) })
	n.write(watched, good)
	n.expect(regexp.MustCompile(`phase +applied`))

	now := n.invocations("one.service")
	if now["one.service"] != after["one.service"] || n.status().Generation != last {
		t.Error("the good configuration again: something was done")
	}

	n.sh("kill -9 $(systemctl show -P MainPID loam-agent.service)")
	n.expect(regexp.MustCompile(`phase +applied`))

	if now := n.invocations("one.service"); now["one.service"] != after["one.service"] {
		t.Error("the agent was killed: one.service was restarted")
	}

	next := n.next
	_, _ = n.Shell().Write([]byte("systemctl reboot\n"))
	n.next = next
	n.expect(regexp.MustCompile(`verified, generation ` + last))

	if g := n.applied(); g != last {
		t.Errorf("after the reboot generation %s, was %s", g, last)
	}

	n.shell()
	n.want("cat /etc/demo/one; systemctl is-active one.service", "2active")
	n.want("loam status | grep -c 'debug shell open'", "1")
}

// badInput writes one bad document after the other and looks for any change.
func badInput(n *node, good string) {
	tests := []struct{ name, text, path, problem string }{
		{"broken YAML", "spec: [}", "document", ""},
		{
			"an unknown field",
			strings.Replace(good, "filePaths:", "filePath:", 1),
			"spec.units[0].filePath",
			"unknown field",
		},
		{"a bad mode", strings.Replace(good, "0644", "99999", 1), "spec.files[0].permissions", ""},
		{
			"a path outside the allowed tree",
			strings.ReplaceAll(good, "/etc/demo/one",
				"/usr/bin/demo"),
			"spec.files[0].path",
			"",
		},
		{
			"a path with ..",
			strings.ReplaceAll(good, "/etc/demo/one", "/etc/demo/../one"),
			"spec.files[0].path",
			"..",
		},
		{"a path twice", good + file("/etc/demo/one", "3"), "spec.files[1].path", ""},
		{
			"a unit without a name",
			strings.Replace(good, "name: one.service\n    ", "", 1),
			"spec.units[0].name",
			"",
		},
	}

	state := func() string {
		return n.sh("find /var/lib/loam /etc -not -path '*/.*' | sort | sha256sum; " +
			"systemctl show -P InvocationID one.service")
	}

	n.proven()
	before := state()
	failed := func(t *testing.T, path, problem string) {
		n.expect(failedPhase)
		s := n.status()
		if s.Error == nil || s.Error.Path != path || !strings.Contains(s.Error.Problem, problem) ||
			s.Error.Hint == "" {
			t.Errorf("error %+v, want one at %q with %q and a hint", s.Error, path, problem)
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("the node changed: %s", diff)
		}
	}

	outer := n.t
	for _, tt := range tests {
		outer.Run(tt.name, func(t *testing.T) {
			n.t = t
			defer func() { n.t = outer }()
			n.write(watched, tt.text)
			failed(t, tt.path, tt.problem)
		})
	}

	outer.Run("1 MiB of garbage", func(t *testing.T) {
		n.t = t
		defer func() { n.t = outer }()
		n.sh("head -c 1048576 /dev/urandom >/var/lib/demo/g && mv /var/lib/demo/g " + watched)
		failed(t, "document", "")
	})
}

func TestNodeConfiguredByItsESP(t *testing.T) {
	judge.Long(t, "TestNodeConfiguredByItsHypervisor, and agent/source")
	parallel(t, 2*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	raw := filepath.Join(m.config.Dir, "flashed.raw")
	m.tool("cp", "--sparse=always", b.file(".raw"), raw)

	for name, text := range map[string]string{
		"machine.yaml": "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: drive\n" +
			"source: {esp: {path: /loam/config.yaml}}\n",
		"config.yaml": header + service("one") + "  files:\n" +
			file("/etc/demo/one", "from the drive"),
	} {
		if err := os.WriteFile(filepath.Join(m.config.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	esp := raw + "@@1M"
	m.tool("mmd", "-i", esp, "::/loam")
	m.tool("mcopy", "-i", esp, filepath.Join(m.config.Dir, "machine.yaml"),
		filepath.Join(m.config.Dir, "config.yaml"), "::/loam/")
	m.config.Disk = raw
	m.config.Bus = "nvme"
	n := m.on(t, nil)
	n.applied()
	n.next = 0
	n.expect(regexp.MustCompile(`host name +drive`))
	n.expect(regexp.MustCompile(`one.service +active/running`))
}
