package osc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/judge"
)

// What the next boot or the node agent would not survive is refused, also from
// a cluster.
func TestPathsThatTakeTheNodeAway(t *testing.T) {
	for _, path := range []string{
		"/etc/ld.so.cache",
		"/etc/ld.so.preload",
		"/etc/initrd-release",
		"/etc/selinux/config",
		"/etc/ima/ima-policy",
		"/etc/apparmor/earlypolicy/systemd",
		"/etc/systemd/system-generators/x",
		"/etc/systemd/system-environment-generators/x",
		"/etc/systemd/system.conf",
		"/etc/systemd/system.conf.d/x.conf",
		"/etc/systemd/system/init.scope.d/x.conf",
		"/etc/systemd/system/loam-agent.service",
		"/etc/systemd/system/loam-agent.service.d/x.conf",
		"/etc/systemd/system/loam-.service.d/x.conf",
		"/etc/systemd/system/systemd-tmpfiles-setup.service",
		"/etc/systemd/system/systemd-tmpfiles-.service.d/x.conf",
		"/etc/systemd/system/systemd-journald.socket.d/x.conf",
		"/etc/systemd/system/service.d/x.conf",
		"/etc/systemd/system.control/loam-agent.service.d/x.conf",
		"/etc/systemd/system.attached/loam-agent.service",
		"/usr/local/lib/systemd/system/loam-agent.service",
		"/usr/local/lib/systemd/system-generators/x",
		"/etc/systemd/system/target.d/x.conf",
		"/etc/systemd/system/mount.d/x.conf",
		"/etc/modprobe.d/loam.conf",
		"/etc/sysctl.d/50-loam.conf",
		"/etc/tmpfiles.d/loam.conf",
		"/usr/local/lib/modprobe.d/loam.conf",
		"/usr/local/lib/sysctl.d/50-loam.conf",
		"/usr/local/lib/tmpfiles.d/loam.conf",
		"/etc/systemd/network/80-loam-ethernet.network",
		"/etc/systemd/network/80-loam-ethernet.network.d/loam.conf",
		"/etc/systemd/journald.conf.d/loam.conf",
		"/etc/systemd/system/kubelet.service.d/10-loam-data-volume.conf",
	} {
		if err := mergeText(file(path), osc.Env{}); accepts(err) {
			t.Errorf("%s is accepted: %v", path, err)
		}
	}
}

// A unit file among the files is checked as in units.
func TestUnitFilesAmongTheFiles(t *testing.T) {
	for _, test := range []struct {
		name, path, text  string
		valid, acceptable bool
	}{
		{
			name:  "a unit",
			path:  "/etc/systemd/system/a.service",
			text:  `[Service]\nExecStart=/usr/bin/true\n`,
			valid: true, acceptable: true,
		},
		{
			name: "a unit that stops the node agent",
			path: "/etc/systemd/system/a.service",
			text: `[Unit]\nConflicts=loam-agent.service\n`,
		},
		{
			name: "an alias of the node agent",
			path: "/etc/systemd/system/a.service.d/x.conf",
			text: `[Install]\nAlias=loam-agent.service\n`,
		},
		{
			name: "a template with an instance that stops the node agent",
			path: "/etc/systemd/system/a@.service.d/x.conf",
			text: `[Unit]\nConflicts=%i\nWants=a@loam-agent.service.service\n`,
		},
		{
			name:  "a template that stops another unit",
			path:  "/etc/systemd/system/a@.service",
			text:  `[Unit]\nConflicts=%i.service\n[Service]\nExecStart=/usr/bin/true\n`,
			valid: true, acceptable: true,
		},
		{
			name:       "an empty unit",
			path:       "/etc/systemd/system/sysinit.target",
			acceptable: true,
		},
		{
			name:       "a misspelt directive of a drop-in",
			path:       "/etc/systemd/system/a.service.d/x.conf",
			text:       `[Service]\nRestrat=always\n`,
			acceptable: true,
		},
		{
			name:  "a file that is not a unit",
			path:  "/etc/systemd/system/README",
			text:  "Conflicts=loam-agent.service",
			valid: true, acceptable: true,
		},
	} {
		text := head + "  files:\n  - path: " + test.path +
			"\n    content: {inline: {data: \"" + test.text + "\"}}\n"
		err := mergeText(text, osc.Env{})
		if (err == nil) != test.valid || accepts(err) != test.acceptable {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// A file without a reader is refused in an operator's document, and reported in
// a cluster's. The image has none of the readers.
func TestPathsThatNothingReads(t *testing.T) {
	for _, path := range []string{
		"/etc/sysusers.d/x.conf", "/etc/fstab", "/etc/crypttab", "/etc/cron.d/x",
		"/etc/cron.daily/x", "/etc/crontab", "/var/spool/cron/crontabs/root", "/etc/rc.local",
		"/etc/init.d/x", "/etc/rc3.d/S01x", "/etc/network/interfaces",
		"/etc/network/interfaces.d/x", "/etc/netplan/x.yaml", "/etc/sysctl.conf",
		"/etc/sudoers.d/x", "/etc/ssh/sshd_config",
	} {
		err := mergeText(file(path), osc.Env{})
		if err == nil || !strings.Contains(err.Error(), " has no effect: ") || !accepts(err) {
			t.Errorf("%s: %v", path, err)
		}
	}

	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	for _, reader := range osc.AbsentReaders() {
		if _, err := os.Lstat(filepath.Join(tree, reader)); !os.IsNotExist(err) {
			t.Errorf("%s is in the image: %v", reader, err)
		}
	}
}

// Each configuration file that systemd's manuals name is read by a program of the image,
// or reported. The names are those of systemd.directives(7).
func TestConfigurationOfSystemdIsRead(t *testing.T) {
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	const programs, units = "/usr/lib/systemd/systemd-", "/usr/lib/systemd/system/"
	for path, reader := range map[string]string{
		"/etc/systemd/coredump.conf":         programs + "coredump",
		"/etc/systemd/homed.conf":            programs + "homed",
		"/etc/systemd/journal-remote.conf":   programs + "journal-remote",
		"/etc/systemd/journal-upload.conf":   programs + "journal-upload",
		"/etc/systemd/journald.conf":         programs + "journald",
		"/etc/systemd/logind.conf":           programs + "logind",
		"/etc/systemd/networkd.conf":         programs + "networkd",
		"/etc/systemd/oomd.conf":             programs + "oomd",
		"/etc/systemd/pstore.conf":           programs + "pstore",
		"/etc/systemd/resolved.conf":         programs + "resolved",
		"/etc/systemd/sleep.conf":            programs + "sleep",
		"/etc/systemd/timesyncd.conf":        programs + "timesyncd",
		"/etc/binfmt.d/x.conf":               programs + "binfmt",
		"/etc/modules-load.d/x.conf":         programs + "modules-load",
		"/etc/sysctl.d/x.conf":               programs + "sysctl",
		"/etc/vconsole.conf":                 programs + "vconsole-setup",
		"/etc/sysusers.d/x.conf":             units + "systemd-sysusers.service",
		"/etc/tmpfiles.d/x.conf":             units + "systemd-tmpfiles-setup.service",
		"/etc/udev/hwdb.d/x.hwdb":            units + "systemd-hwdb-update.service",
		"/etc/udev/rules.d/x.rules":          units + "systemd-udevd.service",
		"/etc/repart.d/x.conf":               "/usr/bin/systemd-repart",
		"/etc/sysupdate.d/x.conf":            programs + "sysupdate",
		"/etc/systemd/nspawn/x.nspawn":       "/usr/bin/systemd-nspawn",
		"/etc/fstab":                         "/usr/lib/systemd/system-generators/systemd-fstab-generator",
		"/etc/crypttab":                      "/usr/lib/systemd/system-generators/systemd-cryptsetup-generator",
		"/etc/veritytab":                     "/usr/lib/systemd/system-generators/systemd-veritysetup-generator",
		"/etc/integritytab":                  "/usr/lib/systemd/system-generators/systemd-integritysetup-generator",
		"/etc/systemd/oomd.conf.d/x.conf":    programs + "oomd",
		"/etc/systemd/pstore.conf.d/x.conf":  programs + "pstore",
		"/etc/systemd/logind.conf.d/x.conf":  programs + "logind",
		"/etc/systemd/journald.conf.d/x.cnf": programs + "journald",
	} {
		_, missing := os.Lstat(filepath.Join(tree, reader))
		err := mergeText(file(path), osc.Env{})
		if (err != nil) != os.IsNotExist(missing) {
			t.Errorf("%s: %v, and the reader: %v", path, err, missing)
		}
	}
}

// The hints for other places name paths that are read.
func TestPathsThatAreRead(t *testing.T) {
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	for path, reader := range map[string]string{
		"/etc/sysctl.d/x.conf":             "sysinit.target.wants/systemd-sysctl.service",
		"/etc/modules-load.d/x.conf":       "sysinit.target.wants/systemd-modules-load.service",
		"/etc/tmpfiles.d/x.conf":           "sysinit.target.wants/systemd-tmpfiles-setup.service",
		"/etc/udev/rules.d/x.rules":        "sysinit.target.wants/systemd-udevd.service",
		"/etc/systemd/journald.conf.d/x":   "sysinit.target.wants/systemd-journald.service",
		"/etc/systemd/network/x.network":   "systemd-networkd.service",
		"/etc/systemd/resolved.conf.d/x":   "systemd-resolved.service",
		"/etc/sysctl.d/90-loamy.conf":      "sysinit.target.wants/systemd-sysctl.service",
		"/etc/containerd/conf.d/x.toml":    "containerd.service",
		"/etc/systemd/timesyncd.conf.d/xx": "systemd-timesyncd.service",
	} {
		if err := mergeText(file(path), osc.Env{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := os.Lstat(filepath.Join(tree, "usr/lib/systemd/system", reader)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
