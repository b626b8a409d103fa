package node

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/judge"
)

// sysctlFile is where the image sets the kernel's parameters.
const sysctlFile = "../../mkosi/mkosi.extra/usr/lib/sysctl.d/50-loam.conf"

// parameters are those that say who may do what, on each machine and with each
// version of the kernel the same.
const parameters = `^(dev\.tty\.ldisc|fs\.(protected|suid)_|` +
	`kernel\.(core_p|dmesg|io_uring|kexec_l|kptr|modules_d|panic_on_o|` +
	`perf_event_p|randomize|sysrq|unprivileged|yama)|net\.core\.bpf_jit_h|` +
	`net\.ipv[46]\.conf\.(all|default)\.(accept|promote|rp_f|secure_r|send_r|shared)|` +
	`vm\.(mmap_min|mmap_rnd|unprivileged))`

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

// resists has a pod without privileges try what the kernel keeps closed, with and
// without containerd's filter of system calls. Of all that it asks the kernel for,
// nothing is loaded but what any process may have loaded.
func resists(t *testing.T, n *node, w *clusterTest) {
	n.t = t
	w.pushIntruder()
	const list = "cut -d ' ' -f 1 /proc/modules | sort"
	before := strings.Fields(n.sh(list))

	_, err := w.Do(http.MethodPost, podsAPI, `{
		"metadata": {"name": "intruder"},
		"spec": {"containers": [
			{"name": "unfiltered", "image": "registry.test/intruder:v1",
			 "securityContext": {"seccompProfile": {"type": "Unconfined"}}},
			{"name": "filtered", "image": "registry.test/intruder:v1",
			 "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
		]}
	}`)
	if err != nil {
		t.Fatal(err)
	}

	for container, want := range map[string]string{
		"unfiltered": "user namespace: EPERM\nio_uring: EPERM\nbpf: EPERM\nperf: EACCES\n" +
			"mount: EACCES\nsysrq: EROFS\nkeyring: allowed\nseccomp: none\ndone\n",
		"filtered": "user namespace: EPERM\nio_uring: EPERM\nbpf: EPERM\nperf: EPERM\n" +
			"mount: EPERM\nsysrq: EROFS\nkeyring: EPERM\nseccomp: a filter\ndone\n",
	} {
		if diff := cmp.Diff(want, w.log("intruder", container)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", container, diff)
		}
	}

	for _, module := range strings.Fields(n.sh(list)) {
		if !slices.Contains(before, module) && !slices.Contains(anyoneLoads, module) {
			t.Errorf("the pod had the kernel load %s", module)
		}
	}
}

// anyoneLoads are modules that any process may have the kernel load (see TestRoot
// of test/image), with those that they need.
var anyoneLoads = strings.Fields("af_packet_diag inet_diag netlink_diag nfnetlink raw_diag " +
	"tcp_diag udp_diag unix_diag xfrm_algo xfrm_user " +
	"autofs4 binfmt_misc configfs efivarfs erofs ext4 overlay xfs " +
	"ceph libceph cifs cifs_arc4 cifs_md4 dns_resolver nls_ucs2_utils nls_utf8 netfs " +
	"cdrom isofs fat vfat nfs auth_rpcgss grace lockd nfs_acl sunrpc")

// pushIntruder brings the image of testdata/intruder into the registry.
func (w *clusterTest) pushIntruder() {
	w.Helper()
	program := filepath.Join(w.TempDir(), "intruder")
	build := exec.Command("go", "build", "-o", program, "./testdata/intruder")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+w.Arch)
	if out, err := build.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}

	tables, err := filepath.Glob(
		filepath.Join(judge.Dir(w, "LOAM_ROOT_TREE"), "usr/lib/modules/*/modules.alias"))
	if err != nil || len(tables) != 1 {
		w.Fatal(tables, err)
	}

	w.Registry.Push(w, "intruder:v1", cluster.Image{
		Arch: w.Arch,
		Layers: []cluster.Layer{{
			"intruder":      {Content: readFile(w.T, program), Mode: 0o755},
			"modules.alias": {Content: readFile(w.T, tables[0]), Mode: 0o644},
		}},
		Entrypoint: []string{"/intruder"},
	})
}

// log is what a container of a pod prints up to the line "done". The intruder prints
// nothing before the kernel has looked for some hundred modules, each by a process.
func (w *clusterTest) log(pod, container string) string {
	w.Helper()
	var text []byte
	ctx, cancel := context.WithTimeout(w.Context(), 3*stepTimeout)
	defer cancel()
	for tick := time.Tick(time.Second); ; {
		var err error
		text, err = w.Do(http.MethodGet, podsAPI+"/"+pod+"/log?container="+container, "")
		if err == nil && strings.HasSuffix(string(text), "done\n") {
			return string(text)
		}
		select {
		case <-tick:
		case <-ctx.Done():
			w.Fatalf("log of %s: %v: %s", container, err, text)
		}
	}
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
