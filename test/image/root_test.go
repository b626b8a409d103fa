package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// epoch is the time of every file: 2025-01-01 in UTC.
var epoch = time.Unix(1735689600, 0)

// Sizes that the project promises, in bytes.
const (
	mb      = 1000 * 1000
	maxLoam = 45 * mb
)

// largest are the most that root file system and packed image may be, by
// profile.
var largest = map[string]struct{ root, packed int64 }{
	"cloud": {150 * mb, 160 * mb},
	"metal": {300 * mb, 350 * mb},
}

// TestRoot looks at what the root file system holds, as fsck.erofs reads it.
func TestRoot(t *testing.T) {
	b := underTest(t)
	if os.Geteuid() != 0 {
		judge.Lacking(t, "owners are kept only for root")
	}

	root := filepath.Join(t.TempDir(), "root")
	judge.Run(t, "fsck.erofs", "--extract="+root, "--preserve", "--xattrs", b.file(t, ".root"))
	for _, test := range []struct {
		name  string
		check func(t *testing.T, root string)
	}{
		{"no account has a password", noPassword},
		{"no key, login, shell or package manager", noUnwanted},
		{"no file gives rights to who runs it", noSetuid},
		{"only root owns and writes", rootOwns},
		{"the machine ID is left to the machine", emptyMachineID},
		{"os-release comes from the sources", osRelease},
		{"every file has the same time", oneTime},
		{"the hardware has its drivers", b.hasDrivers},
		{"drivers have their firmware", b.hasFirmware},
		{"a process loads no module that is not listed", loadsListed},
	} {
		t.Run(test.name, func(t *testing.T) { test.check(t, root) })
	}

	info, err := os.Stat(filepath.Join(root, "usr/bin/loam"))
	if err != nil || info.Size() > maxLoam {
		t.Errorf("loam: %v, %v; at most %d bytes", info, err, maxLoam)
	}
}

func TestImagesAreSmall(t *testing.T) {
	b := underTest(t)
	most := largest[b.manifest.Profile]
	for suffix, most := range map[string]int64{".root": most.root, ".raw.zst": most.packed} {
		if info, err := os.Stat(b.file(t, suffix)); err != nil || info.Size() > most {
			t.Errorf("%s: %v, %v; at most %d bytes", suffix, info, err, most)
		}
	}
}

// files calls do for everything in the tree.
func files(t *testing.T, root string, do func(name string, info fs.FileInfo)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		info, err := e.Info()
		if err != nil {
			return err
		}

		name, err := filepath.Rel(root, path)
		do(name, info)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// loads are the modules that a process without privileges may have the kernel
// load, by opening a socket or by a mount that is refused.
var loads = []string{
	"af_packet_diag", "inet_diag", "netlink_diag", "nfnetlink", "raw_diag", "tcp_diag",
	"udp_diag", "unix_diag", "xfrm_user",
	"autofs4", "binfmt_misc", "ceph", "cifs", "configfs", "efivarfs", "erofs", "ext4", "isofs",
	"nfs", "overlay", "sunrpc", "vfat", "xfs",
}

// loadsListed asks modprobe, as the kernel would, for each protocol and each file
// system of each module. The module off does not exist.
func loadsListed(t *testing.T, root string) {
	dirs, err := filepath.Glob(filepath.Join(root, "usr/lib/modules/*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}

	asked := map[string]bool{}
	for line := range strings.Lines(read(t, dirs[0], "modules.alias")) {
		words := strings.Fields(line)
		if len(words) != 3 || asked[words[1]] ||
			(!strings.HasPrefix(words[1], "net-pf-") && !strings.HasPrefix(words[1], "fs-")) {
			continue
		}
		asked[words[1]] = true

		out := judge.Run(t, "modprobe", "-C", filepath.Join(root, "usr/lib/modprobe.d"), "-d", root,
			"-S", filepath.Base(dirs[0]), "--resolve-alias", words[1])
		for module := range strings.FieldsSeq(out) {
			if module != "off" && !slices.Contains(loads, module) {
				t.Errorf("%s loads %s", words[1], module)
			}
		}
	}
	if len(asked) < 30 {
		t.Errorf("only %d aliases in modules.alias", len(asked))
	}
}

// noPassword: shadow(5), a hash that no password has. An account that is not
// in /etc/shadow would have its password in /etc/passwd.
func noPassword(t *testing.T, root string) {
	locked := map[string]bool{}
	for line := range strings.Lines(read(t, root, "etc/shadow")) {
		field := strings.Split(line, ":")
		locked[field[0]] = strings.HasPrefix(field[1], "*") || strings.HasPrefix(field[1], "!")
	}

	if !locked["root"] {
		t.Error("root is not locked")
	}

	for line := range strings.Lines(read(t, root, "etc/passwd")) {
		if field := strings.Split(line, ":"); field[1] != "x" || !locked[field[0]] {
			t.Errorf("%s is not locked", field[0])
		}
	}
}

var unwanted = regexp.MustCompile(
	`(^|/)(authorized_keys.*|ssh_host_.*|id_(rsa|ecdsa|ed25519).*|sshd|dropbear|` +
		`.*getty@?\.service|debug-shell\.service|` +
		`apt|apt-get|dpkg|dpkg-.*|aptitude|perl|python3?|pip3?|gcc|make|` +
		`\.bash_history|.*\.pyc|random-seed|\.viminfo)$`,
)

func noUnwanted(t *testing.T, root string) {
	files(t, root, func(name string, info fs.FileInfo) {
		if unwanted.MatchString(name) && !strings.HasPrefix(name, "usr/share/doc/") {
			t.Errorf("%s is in the image", name)
		}
		if info.Mode().IsRegular() && strings.HasPrefix(name, "etc/") &&
			strings.Contains(read(t, root, name), "PRIVATE KEY-----") {
			t.Errorf("%s is a private key", name)
		}
	})
	if entries, err := os.ReadDir(filepath.Join(root, "var")); err != nil || len(entries) > 0 {
		t.Errorf("/var has %d entries, %v: it is the state partition's", len(entries), err)
	}
}

func noSetuid(t *testing.T, root string) {
	files(t, root, func(name string, info fs.FileInfo) {
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s: %v", name, info.Mode())
		}
		n, err := unix.Lgetxattr(filepath.Join(root, name), "security.capability", nil)
		if err == nil && n > 0 {
			t.Errorf("%s: has file capabilities", name)
		}
	})
}

// groupOwned are files that a group may read.
var groupOwned = map[string]bool{
	"etc/gshadow": true, "etc/shadow": true, "usr/bin/chage": true, "usr/bin/expiry": true,
	"usr/sbin/unix_chkpwd":                       true,
	"usr/lib/dbus-1.0/dbus-daemon-launch-helper": true,
}

func rootOwns(t *testing.T, root string) {
	files(t, root, func(name string, info fs.FileInfo) {
		stat := info.Sys().(*syscall.Stat_t)
		if stat.Uid != 0 || (stat.Gid != 0 && !groupOwned[name]) {
			t.Errorf("%s: belongs to %d:%d", name, stat.Uid, stat.Gid)
		}
		if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 &&
			info.Mode()&fs.ModeSticky == 0 {
			t.Errorf("%s: %v", name, info.Mode())
		}
		if info.Mode().Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
			t.Errorf("%s: %v in a file system without devices", name, info.Mode())
		}
	})
}

func emptyMachineID(t *testing.T, root string) {
	if id := read(t, root, "etc/machine-id"); id != "" {
		t.Errorf("machine-id %q", id)
	}
}

func osRelease(t *testing.T, root string) {
	want, err := os.ReadFile("../../os-release")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), read(t, root, "usr/lib/os-release")); diff != "" {
		t.Error(diff)
	}
}

func oneTime(t *testing.T, root string) {
	files(t, root, func(name string, info fs.FileInfo) {
		if !info.ModTime().Equal(epoch) {
			t.Errorf("%s: %v", name, info.ModTime().UTC())
		}
	})
}
