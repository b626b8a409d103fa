package osc

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// allowed are the trees that a document may write to, which belong to the
// administrator (Filesystem Hierarchy Standard 3.0). The others belong to the
// image, to the kernel or to a single boot.
var allowed = []string{"/etc", "/opt", "/var", "/home", "/srv", "/root", "/usr/local"}

// refused are the places in the allowed trees where a file would break the
// node. A pattern follows path.Match and covers everything below it.
var refused = []struct{ pattern, reason, hint string }{
	{
		"/var/lib/loam",
		"it holds the node agent's own state",
		"choose another directory of /var/lib",
	},
	{"/var/run", "it is a link to /run, which each boot empties", "choose a directory of /var/lib"},
	{"/var/opt", "it is the same directory as /opt", "write the path with /opt"},
	{"/var/home", "it is the same directory as /home", "write the path with /home"},
	{"/var/srv", "it is the same directory as /srv", "write the path with /srv"},
	{"/var/roothome", "it is the same directory as /root", "write the path with /root"},
	{"/var/usrlocal", "it is the same directory as /usr/local", "write the path with /usr/local"},
	{
		"/var/lock",
		"it is a link to /run/lock, which each boot empties",
		"choose a directory of /var/lib",
	},
	{"/etc/machine-id", "it is the identity of this one machine", "leave it out"},
	{
		"/etc/hostname",
		"the host name decides which files are for this node",
		"set hostname in machine.yaml",
	},
	{"/etc/os-release", "it tells the version of the image", "leave it out"},
	{"/etc/mtab", "it is a link to the kernel's list of mounts", "leave it out"},
	{
		"/etc/passwd",
		"services of the image need the users in it",
		"set DynamicUser=yes in the unit, or give User= and Group= a number",
	},
	{
		"/etc/shadow",
		"services of the image need the users in it",
		"set DynamicUser=yes in the unit, or give User= and Group= a number",
	},
	{
		"/etc/group",
		"services of the image need the groups in it",
		"set DynamicUser=yes in the unit, or give User= and Group= a number",
	},
	{
		"/etc/gshadow",
		"services of the image need the groups in it",
		"set DynamicUser=yes in the unit, or give User= and Group= a number",
	},
	{
		"/etc/ld.so.preload",
		"every program of the node would load what it names",
		"set LD_PRELOAD= in the unit that needs it",
	},
	{
		"/etc/ld.so.cache",
		"every program of the node loads its libraries by it",
		"set LD_LIBRARY_PATH= in the unit that needs it",
	},
	{
		"/etc/initrd-release",
		"systemd would take the node for an initramfs at the next boot",
		"leave it out",
	},
	{
		"/etc/selinux",
		"systemd would load its policy at the next boot, before the node agent can judge it",
		"leave it out: the image has no policy of SELinux",
	},
	{
		"/etc/ima",
		"systemd would load its policy at the next boot, before the node agent can judge it",
		"leave it out",
	},
	{
		"/etc/apparmor/earlypolicy",
		"systemd would confine itself by it at the next boot",
		"set AppArmorProfile= in the unit that needs it",
	},
	{
		"/etc/systemd/system-generators",
		"programs there run before the node agent can judge them, at each boot",
		"list units in units",
	},
	{
		"/etc/systemd/system-environment-generators",
		"programs there run before the node agent can judge them, at each boot",
		"set Environment= in the units that need it",
	},
	{
		"/etc/systemd/system.conf",
		"it changes PID 1, the next boot included",
		"write drop-ins for units",
	},
	{
		"/etc/systemd/system.conf.d",
		"it changes PID 1, the next boot included",
		"write drop-ins for units",
	},
	{
		"/etc/systemd/system/init.scope.d",
		"it changes PID 1, the next boot included",
		"write drop-ins for units",
	},
	{
		"/etc/systemd/system/service.d",
		"it would change the node agent too",
		"write a drop-in for each service",
	},
	{
		"/etc/systemd/system/automount.d",
		"it would change the image's units too",
		"write a drop-in for each automount",
	},
	{
		"/etc/systemd/system/device.d",
		"it would change the image's units too",
		"write a drop-in for each device",
	},
	{
		"/etc/systemd/system/mount.d",
		"it would change the image's units too",
		"write a drop-in for each mount",
	},
	{
		"/etc/systemd/system/path.d",
		"it would change the image's units too",
		"write a drop-in for each path",
	},
	{
		"/etc/systemd/system/scope.d",
		"it would change the image's units too",
		"write a drop-in for each scope",
	},
	{
		"/etc/systemd/system/slice.d",
		"it would change the image's units too",
		"write a drop-in for each slice",
	},
	{
		"/etc/systemd/system/socket.d",
		"it would change the image's units too",
		"write a drop-in for each socket",
	},
	{
		"/etc/systemd/system/swap.d",
		"it would change the image's units too",
		"write a drop-in for each swap",
	},
	{
		"/etc/systemd/system/target.d",
		"it would change the image's units too",
		"write a drop-in for each target",
	},
	{
		"/etc/systemd/system/timer.d",
		"it would change the image's units too",
		"write a drop-in for each timer",
	},
	{
		"/etc/systemd/system.control",
		"units there override those of the image, " +
			"the node agent's too",
		"list the unit in units",
	},
	{
		"/etc/systemd/system.attached",
		"units there override those of the image, " +
			"the node agent's too",
		"list the unit in units",
	},
	{
		"/usr/local/lib/systemd",
		"units there override those of the image, the node agent's too",
		"list the unit in units",
	},
	{
		"/etc/systemd/system/*.wants",
		"enablement follows from the units",
		"list the unit in units, with WantedBy= in [Install]",
	},
	{
		"/etc/systemd/system/*.requires",
		"enablement follows from the units",
		"list the unit in units, with RequiredBy= in [Install]",
	},
	{
		"/etc/systemd/system/*.upholds",
		"enablement follows from the units",
		"list the unit in units, with UpheldBy= in [Install]",
	},
}

// unread are the places that the image has no program for: a file there has no
// effect. reader is the path of the program in the image that would read it,
// which is absent. A pattern is as in refused.
var unread = []struct{ pattern, reader, hint string }{
	{
		"/etc/sysusers.d",
		"/usr/lib/systemd/system/systemd-sysusers.service",
		"set DynamicUser=yes in the unit, or give User= and Group= a number",
	},
	{
		"/etc/fstab",
		"/usr/lib/systemd/system-generators/systemd-fstab-generator",
		"list a mount or swap unit in units",
	},
	{
		"/etc/crypttab",
		"/usr/lib/systemd/system-generators/systemd-cryptsetup-generator",
		"let machine.yaml encrypt the data volume",
	},
	{
		"/etc/veritytab",
		"/usr/lib/systemd/system-generators/systemd-veritysetup-generator",
		"leave it out",
	},
	{
		"/etc/integritytab",
		"/usr/lib/systemd/system-generators/systemd-integritysetup-generator",
		"leave it out",
	},
	{
		"/etc/rc.local",
		"/usr/lib/systemd/system-generators/systemd-rc-local-generator",
		"list a service in units",
	},
	{
		"/etc/init.d",
		"/usr/lib/systemd/system-generators/systemd-sysv-generator",
		"list a service in units",
	},
	{
		"/etc/rc*.d",
		"/usr/lib/systemd/system-generators/systemd-sysv-generator",
		"list a service in units",
	},
	{"/etc/inittab", "/usr/sbin/telinit.sysvinit", "list a service in units"},
	{"/etc/crontab", "/usr/sbin/cron", "list a service and a timer in units"},
	{"/etc/cron.*", "/usr/sbin/cron", "list a service and a timer in units"},
	{"/etc/anacrontab", "/usr/sbin/anacron", "list a service and a timer in units"},
	{"/var/spool/cron", "/usr/sbin/cron", "list a service and a timer in units"},
	{"/etc/network", "/usr/sbin/ifup", "write the network into machine.yaml"},
	{"/etc/netplan", "/usr/sbin/netplan", "write the network into machine.yaml"},
	{"/etc/NetworkManager", "/usr/sbin/NetworkManager", "write the network into machine.yaml"},
	{"/etc/sysconfig/network-scripts", "/usr/sbin/ifup", "write the network into machine.yaml"},
	{
		"/etc/dhcp",
		"/usr/sbin/dhclient",
		"write the network into machine.yaml",
	},
	{"/etc/chrony", "/usr/sbin/chronyd", "write the time servers into machine.yaml"},
	{"/etc/chrony.conf", "/usr/sbin/chronyd", "write the time servers into machine.yaml"},
	{"/etc/ntp.conf", "/usr/sbin/ntpd", "write the time servers into machine.yaml"},
	{"/etc/ntpsec", "/usr/sbin/ntpd", "write the time servers into machine.yaml"},
	{"/etc/rsyslog.conf", "/usr/sbin/rsyslogd", "list a service in units that sends the journal"},
	{"/etc/rsyslog.d", "/usr/sbin/rsyslogd", "list a service in units that sends the journal"},
	{"/etc/sysctl.conf", "/usr/lib/sysctl.d/99-sysctl.conf", "write it in /etc/sysctl.d"},
	{"/etc/modules", "/usr/lib/modules-load.d/modules.conf", "write it in /etc/modules-load.d"},
	{"/etc/default/grub", "/usr/sbin/update-grub", "leave it out: the image has its command line"},
	{"/etc/default/grub.d", "/usr/sbin/update-grub", "leave it out: the image has its command line"},
	{"/etc/grub.d", "/usr/sbin/update-grub", "leave it out: the image has its command line"},
	{"/etc/dracut.conf", "/usr/bin/dracut", "leave it out: the image has its initramfs"},
	{"/etc/dracut.conf.d", "/usr/bin/dracut", "leave it out: the image has its initramfs"},
	{
		"/etc/initramfs-tools",
		"/usr/sbin/update-initramfs",
		"leave it out: the image has its initramfs",
	},
	{"/etc/apt", "/usr/bin/apt-get", "leave it out: the image has its packages"},
	{"/etc/yum.repos.d", "/usr/bin/yum", "leave it out: the image has its packages"},
	{"/etc/docker", "/usr/bin/dockerd", "write criConfig, which is for containerd"},
	{"/etc/crio", "/usr/bin/crio", "write criConfig, which is for containerd"},
	{"/etc/sudoers", "/usr/bin/sudo", "leave it out"},
	{"/etc/sudoers.d", "/usr/bin/sudo", "leave it out"},
	{"/etc/ssh/sshd_config", "/usr/sbin/sshd", "leave it out: the image has no SSH server"},
	{"/etc/ssh/sshd_config.d", "/usr/sbin/sshd", "leave it out: the image has no SSH server"},
	{"/root/.ssh/authorized_keys", "/usr/sbin/sshd", "leave it out: the image has no SSH server"},
	{
		"/etc/udev/hwdb.d",
		"/usr/lib/systemd/system/systemd-hwdb-update.service",
		"write a rule in /etc/udev/rules.d",
	},
	{
		"/etc/repart.d",
		"/usr/bin/systemd-repart",
		"let machine.yaml claim disks",
	},
	{
		"/etc/sysupdate.d",
		"/usr/lib/systemd/systemd-sysupdate",
		"leave it out: upgrades are in machine.yaml",
	},
	{
		"/etc/systemd/coredump.conf",
		"/usr/lib/systemd/systemd-coredump",
		"leave it out: the image keeps no core dumps",
	},
	{
		"/etc/systemd/coredump.conf.d",
		"/usr/lib/systemd/systemd-coredump",
		"leave it out: the image keeps no core dumps",
	},
	{
		"/etc/systemd/oomd.conf",
		"/usr/lib/systemd/systemd-oomd",
		"set MemoryMax= in units",
	},
	{
		"/etc/systemd/oomd.conf.d",
		"/usr/lib/systemd/systemd-oomd",
		"set MemoryMax= in units",
	},
	{
		"/etc/systemd/homed.conf",
		"/usr/lib/systemd/systemd-homed",
		"leave it out",
	},
	{
		"/etc/systemd/homed.conf.d",
		"/usr/lib/systemd/systemd-homed",
		"leave it out",
	},
	{
		"/etc/systemd/journal-remote.conf",
		"/usr/lib/systemd/systemd-journal-remote",
		"list a service in units that sends the journal",
	},
	{
		"/etc/systemd/journal-remote.conf.d",
		"/usr/lib/systemd/systemd-journal-remote",
		"list a service in units that sends the journal",
	},
	{
		"/etc/systemd/journal-upload.conf",
		"/usr/lib/systemd/systemd-journal-upload",
		"list a service in units that sends the journal",
	},
	{
		"/etc/systemd/journal-upload.conf.d",
		"/usr/lib/systemd/systemd-journal-upload",
		"list a service in units that sends the journal",
	},
	{
		"/etc/systemd/nspawn",
		"/usr/bin/systemd-nspawn",
		"run a pod",
	},
	{
		"/etc/iptables",
		"/usr/sbin/netfilter-persistent",
		"write /etc/nftables.conf, and enable nftables.service",
	},
	{
		"/etc/sysconfig/iptables",
		"/usr/lib/systemd/system/iptables.service",
		"write /etc/nftables.conf, and enable nftables.service",
	},
	{
		"/etc/audit",
		"/usr/sbin/auditd",
		"list a service in units that reads the journal",
	},
	{
		"/etc/lvm",
		"/usr/sbin/lvm",
		"let machine.yaml claim disks",
	},
	{
		"/etc/mdadm",
		"/usr/sbin/mdadm",
		"let machine.yaml claim disks",
	},
	{
		"/etc/mdadm.conf",
		"/usr/sbin/mdadm",
		"let machine.yaml claim disks",
	},
	{
		"/etc/multipath",
		"/usr/sbin/multipathd",
		"leave it out: the image has no multipath",
	},
	{
		"/etc/multipath.conf",
		"/usr/sbin/multipathd",
		"leave it out: the image has no multipath",
	},
	{
		"/etc/exports",
		"/usr/sbin/exportfs",
		"serve files from a pod",
	},
	{
		"/etc/exports.d",
		"/usr/sbin/exportfs",
		"serve files from a pod",
	},
	{
		"/etc/hosts.allow",
		"/usr/sbin/tcpd",
		"set IPAddressAllow= in units",
	},
	{
		"/etc/hosts.deny",
		"/usr/sbin/tcpd",
		"set IPAddressDeny= in units",
	},
	{
		"/etc/vconsole.conf",
		"/usr/lib/systemd/systemd-vconsole-setup",
		"leave it out",
	},
	{
		"/etc/default/keyboard",
		"/usr/bin/setupcon",
		"leave it out",
	},
	{
		"/etc/default/console-setup",
		"/usr/bin/setupcon",
		"leave it out",
	},
	{
		"/etc/polkit-1",
		"/usr/lib/polkit-1/polkitd",
		"leave it out",
	},
	{
		"/etc/ssh/ssh_config",
		"/usr/bin/ssh",
		"leave it out: the image has no SSH client",
	},
	{
		"/etc/ssh/ssh_config.d",
		"/usr/bin/ssh",
		"leave it out: the image has no SSH client",
	},
	{"/etc/cloud", "/usr/bin/cloud-init", "write it into machine.yaml or this configuration"},
}

// maxPath and maxName are in bytes, for a path with its directories and for one
// part of it. PATH_MAX is 4096 and must also hold the directory of a
// generation; NAME_MAX is 255.
const (
	maxPath = 1024
	maxName = 255
	// MaxDepth is a number of directories, the root directory among them. Each
	// directory of a generation may be a link, and up to five more lead there.
	// The kernel follows 40 in a path (MAXSYMLINKS in include/linux/namei.h), but
	// those that it has followed count again if it has to begin anew, as when
	// something is mounted meanwhile (do_filp_open in fs/namei.c): with more
	// than 20, opening a file fails now and then with ELOOP.
	MaxDepth = 16
)

// CheckPath reports why file must not be the path of a file from a document. at
// is the path of the field.
func CheckPath(report *document.Report, at, file string) {
	add := func(problem, hint string) {
		report.Add(at, document.Quote(file)+" "+problem, hint)
	}

	switch {
	case file == "":
		report.Add(at, "empty", "write an absolute path, such as /etc/example.conf")
	case strings.ContainsFunc(file, isControl):
		add("holds a control character", "write the path in printable characters")
	case !strings.HasPrefix(file, "/"):
		add("is not absolute", "begin it with /")
	case hasPart(file, ".."):
		add("holds ..", "write the path without it")
	case file == "/" || strings.HasSuffix(file, "/"):
		add("is a directory", "name a file")
	case path.Clean(file) != file:
		add("is not in its shortest form", "write "+path.Clean(file))
	case len(file) > maxPath || longestPart(file) > maxName:
		add("is too long", "keep each part within 255 bytes, and all of it within 1024")
	case strings.Count(file, "/") > MaxDepth:
		add("is too deep", fmt.Sprintf("keep it within %d directories", MaxDepth))
	case !isAllowed(file):
		add("is outside the trees a configuration may write",
			"choose a path below "+strings.Join(allowed, ", "))
	default:
		checkPlace(report, at, file)
	}
}

// checkPlace reports a file that would break the node, or that nothing reads.
func checkPlace(report *document.Report, at, file string) {
	for _, place := range refused {
		if isAt(file, place.pattern) {
			report.Add(at, document.Quote(file)+" is refused: "+place.reason, place.hint)
			return
		}
	}

	if unitfile.IsReserved(unitAt(file)) {
		report.Add(at, document.Quote(file)+" is refused: it belongs to Loam", "name the unit otherwise")
		return
	}

	if isOwnFile(file) {
		report.Add(at, document.Quote(file)+" is refused: it would take the place of the image's "+
			"file of that name", "choose another name")
		return
	}

	for _, place := range unread {
		if isAt(file, place.pattern) {
			report.Warn(at, document.Quote(file)+" has no effect: the image has no "+
				path.Base(place.reader)+" that reads it", place.hint)
			return
		}
	}
}

// unitAt returns the name of the unit that file is, or is read for, "" for another file.
func unitAt(file string) string {
	name, _ := strings.CutPrefix(file, unitDir+"/")
	unit, _, _ := strings.Cut(name, "/")
	return strings.TrimSuffix(unit, ".d")
}

// ownFile matches the names of Loam's own files in the directories of /usr/lib, in
// whose place programs read a file of the same name in /etc or /usr/local/lib.
var ownFile = regexp.MustCompile(`^([0-9][0-9]-)?loam[.-]`)

// isOwnFile reports whether file is read in the place of a file of Loam.
func isOwnFile(file string) bool {
	dir, name := path.Split(file)
	before := strings.HasPrefix(dir, "/etc/") || strings.HasPrefix(dir, "/usr/local/lib/")
	inPlace := strings.HasSuffix(dir, ".d/") || dir == "/etc/systemd/network/"
	return before && inPlace && ownFile.MatchString(name)
}

// isAt reports whether file is at the place of the pattern, or below.
func isAt(file, pattern string) bool {
	// Nearly all paths differ here already, which is cheap to see.
	if literal, _, _ := strings.Cut(pattern, "*"); !strings.HasPrefix(file, literal) {
		return false
	}
	matched, err := path.Match(pattern, ancestor(file, strings.Count(pattern, "/")))
	return err == nil && matched
}

// ancestor returns the first depth parts of an absolute path, or the path if it
// has fewer.
func ancestor(file string, depth int) string {
	for i := range len(file) {
		if file[i] == '/' && i > 0 {
			depth--
		}
		if depth == 0 {
			return file[:i]
		}
	}
	return file
}

func isAllowed(file string) bool {
	for _, tree := range allowed {
		if strings.HasPrefix(file, tree+"/") {
			return true
		}
	}
	return false
}

func hasPart(file, part string) bool {
	return strings.Contains(file+"/", "/"+part+"/")
}

func longestPart(file string) (longest int) {
	for part := range strings.SplitSeq(file, "/") {
		longest = max(longest, len(part))
	}
	return longest
}

func isControl(r rune) bool { return r < ' ' || (r >= 0x7f && r < 0xa0) }
