package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sysctlFile is where the image sets the kernel's parameters.
const sysctlFile = "../../mkosi/mkosi.extra/usr/lib/sysctl.d/50-loam.conf"

// parameters are those that say who may do what, on each machine and with each
// version of the kernel the same.
const parameters = `^(fs\.(protected|suid)_|kernel\.(core_p|dmesg|kexec_l|kptr|modules_d|panic_on_o|` +
	`perf_event_p|randomize|sysrq|unprivileged|yama)|net\.core\.bpf_jit_h|` +
	`net\.ipv[46]\.conf\.(all|default)\.(accept|promote|rp_f|secure_r|send_r|shared))`

// isHardened holds the kernel that runs against what the image asks for, and
// against files of all that matters.
func isHardened(t *testing.T, n *node) {
	for line := range strings.Lines(string(readFile(t, sysctlFile))) {
		name, want, isSetting := strings.Cut(strings.TrimSpace(line), " = ")
		if !isSetting || strings.HasPrefix(name, "#") {
			continue
		}
		if got := n.sh("sysctl -n " + name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}

	isGolden(t, "sysctl", n.sh("sysctl -a 2>/dev/null | grep -E '"+parameters+"' | sort"))
	isGolden(t, "cmdline", hidden{regexp.MustCompile(`roothash=\w+`), "roothash=DIGEST"}.in(
		n.sh("tr ' ' '\\n' </proc/cmdline")))
	isGolden(t, "listening", n.sh("ss -lntuH | awk '{print $1, $5}' | sort"))

	n.want("cat /sys/kernel/security/lockdown", "none [integrity] confidentiality")
	n.want("cat /sys/module/module/parameters/sig_enforce", "Y")
	n.want("modprobe -n -v algif_hash | tail -1 | xargs", "install /bin/false")
	n.want("sh -c 'cd /run; ulimit -c unlimited; sh -c \"kill -SEGV \\$\\$\"; true' >/dev/null 2>&1; "+
		"ls /run | grep -c ^core; true", "0")
}

// isConfined wants the container of pod hello in containerd's own profile, which
// denies what the file's mode allows.
func isConfined(t *testing.T, n *node) {
	n.t = t
	const profile = "cri-containerd.apparmor.d"
	n.want("cat /proc/$(pgrep -xf /hello)/attr/current", profile+" (enforce)")
	n.sh("echo h >/proc/sysrq-trigger")
	n.want("sh -c 'echo exec "+profile+" >/proc/self/attr/exec; "+
		"exec sh -c \"echo h >/proc/sysrq-trigger\"' 2>&1 | grep -c 'Permission denied'", "1")
}

// in returns a text without what differs.
func (h hidden) in(text string) string { return h.pattern.ReplaceAllString(text, h.word) }

// isGolden compares a text with a file, or writes the file if LOAM_GOLDEN is
// set.
func isGolden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", "hardening", name+".txt")
	if os.Getenv("LOAM_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(readFile(t, file)), text+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
