package plane_test

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/judge"
)

// rendered returns the configuration of a node of a cluster with these further
// lines in its record.
func rendered(t *testing.T, lines string) config.Desired {
	t.Helper()
	return renderedOn(t, lines, 0)
}

// renderedOn is rendered for a node whose disk takes that long for a sync.
func renderedOn(t *testing.T, lines string, p99 time.Duration) config.Desired {
	t.Helper()
	r, err := plane.Decode("cluster.yaml", []byte("apiVersion: loam.dev/v1alpha1\n"+
		"kind: Cluster\nname: plant-7\nkubernetes: 1.37.2\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return plane.Render(r, plane.Member{
		Name:             "node-1",
		Address:          netip.MustParseAddr("192.0.2.10"),
		Programs:         "/var/lib/loam/kubernetes/1.37.2/bin",
		Keys:             pki.Files{Dir: "/var/lib/loam/plane/keys"},
		EtcdCertificates: "5e1a",
		FsyncP99:         p99,
	})
}

func text(t *testing.T, c config.Content) string {
	t.Helper()
	in, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()

	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// find returns the text of a file or unit.
func find(t *testing.T, d config.Desired, name string) string {
	t.Helper()
	for _, f := range d.Files {
		if f.Path == name {
			return text(t, f.Content)
		}
	}
	for _, u := range d.Units {
		if u.Name == name {
			return *u.Content
		}
	}
	return ""
}

func TestRender(t *testing.T) {
	desired := rendered(t, "audit: {policy: metadata}\n")
	var all strings.Builder
	for _, f := range desired.Files {
		fmt.Fprintf(&all, "==> %s %s\n%s\n", f.Path, f.Mode, text(t, f.Content))
	}
	for _, u := range desired.Units {
		fmt.Fprintf(&all, "==> %s, restarted by %v\n", u.Name, u.FilePaths)
		if u.Content != nil {
			all.WriteString(*u.Content + "\n")
		}
	}

	const golden = "testdata/node-1.txt"
	if os.Getenv("LOAM_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("%s (-want +got; LOAM_GOLDEN=1 writes it):\n%s", golden, diff)
	}
}

func TestTheSameRecordRendersTheSame(t *testing.T) {
	if a, b := rendered(t, "").Digest(), rendered(t, "").Digest(); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
}

func TestTheRecordDecides(t *testing.T) {
	for name, row := range map[string]struct {
		lines, in, want string
		not             bool
	}{
		"no audit log by default": {
			"", "kube-apiserver.service", "--audit-log-path=", true,
		},
		"an audit log": {
			"audit: {policy: metadata}\n", "kube-apiserver.service",
			"--audit-log-path=/var/log/kubernetes/audit.log", false,
		},
		"bodies in the audit log": {
			"audit: {policy: request}\n", "/etc/kubernetes/audit-policy.json",
			`"level": "Request"`, false,
		},
		"pods beside the control plane by default": {
			"", "/etc/kubernetes/kubelet.json", "registerWithTaints", true,
		},
		"no pods beside the control plane": {
			"schedulable: false\n", "/etc/kubernetes/kubelet.json",
			`"key": "node-role.kubernetes.io/control-plane"`, false,
		},
		"two families": {
			"pods: [10.1.0.0/16, fd00:1::/56]\nservices: [10.2.0.0/16, fd00:2::/112]\n",
			"kube-controller-manager.service", "--cluster-cidr=10.1.0.0/16,fd00:1::/56 ", false,
		},
		"a DNS server of each family": {
			"pods: [10.1.0.0/16, fd00:1::/56]\nservices: [10.2.0.0/16, fd00:2::/112]\n",
			"/etc/kubernetes/kubelet.json", `"fd00:2::a"`, false,
		},
		"the rules of kube-proxy are deleted without it": {
			"addOns: [coredns]\n", "kube-proxy-cleanup.service",
			`"add table ip kube-proxy; delete table ip kube-proxy; ` +
				`add table ip6 kube-proxy; delete table ip6 kube-proxy"`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := find(t, rendered(t, row.lines), row.in)
			if got == "" || strings.Contains(got, row.want) == row.not {
				t.Errorf("%s: %q is there: %v\n%s", row.in, row.want, row.not, got)
			}
		})
	}
}

// TestTheDiskDecidesOnTheTimingOfEtcd: a node whose disk was not measured renders what
// it did before disks were, so that an upgrade of Loam restarts no etcd.
func TestTheDiskDecidesOnTheTimingOfEtcd(t *testing.T) {
	const ms = time.Millisecond
	own := rendered(t, "").Digest()
	for p99, want := range map[time.Duration]string{
		0:       "",
		9 * ms:  "",
		12 * ms: "--election-timeout=2000 --heartbeat-interval=200",
		15 * ms: "--election-timeout=2000 --heartbeat-interval=200",
		90 * ms: "--election-timeout=5000 --heartbeat-interval=500",
	} {
		d := renderedOn(t, "", p99)
		var found []string
		for _, arg := range strings.Fields(find(t, d, "etcd.service")) {
			if strings.HasPrefix(arg, "--heartbeat") || strings.HasPrefix(arg, "--election") {
				found = append(found, arg)
			}
		}
		if got := strings.Join(found, " "); got != want || (d.Digest() == own) != (want == "") {
			t.Errorf("%s: %q, want %q; the digest is the same: %v", p99, got, want, d.Digest() == own)
		}
	}
}

// systemd-analyze finds nothing wrong with the units.
func TestUnitsVerify(t *testing.T) {
	analyze := judge.Systemd(t, "systemd-analyze")
	root := t.TempDir()
	args := []string{
		"verify", "--root=" + root, "--man=no", "--generators=no", "--recursive-errors=no",
	}

	units := rendered(t, "audit: {policy: metadata}\n").Units
	units = append(units, rendered(t, "addOns: []\n").Units...)
	for _, u := range units {
		if u.Content == nil {
			continue
		}
		files.Write(t, filepath.Join(root, "/etc/systemd/system", u.Name), *u.Content)
		args = append(args, u.Name)
		for line := range strings.Lines(*u.Content) {
			name, command, _ := strings.Cut(line, "=")
			if name != "ExecStart" && name != "ExecStartPost" {
				continue
			}
			program := filepath.Join(root, strings.TrimLeft(strings.Fields(command)[0], "-+"))
			files.Write(t, program, "")
			if err := os.Chmod(program, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}

	out, err := exec.Command(analyze, args...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
