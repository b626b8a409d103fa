package plane

import (
	"cmp"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/judge"
)

// The versions of Kubernetes that are tested: the newest one, and one of the minor
// version before. Names of programs of the latter, and of its etcd, have endings.
const (
	version           = "1.37.2"
	earlierVersion    = "1.36.3"
	earlierEnding     = "-1.36"
	earlierEtcdEnding = "-3.6"
)

const nodeName = "node-1"

// intended is testdata/kubeadm.yaml.
type intended struct {
	// Files are the files of kubeadm by ours.
	Files map[string]string `json:"files"`
	// Flags and Kubelet are what is different on purpose.
	Flags   []difference `json:"flags"`
	Kubelet []difference `json:"kubelet"`
	// SlowDisk are further flags of a node whose disk is slow.
	SlowDisk []difference `json:"slowDisk"`
	// CoreDNS are fields of its objects, after their kinds. Proxy are fields of the
	// configuration of kube-proxy.
	CoreDNS []difference `json:"coredns"`
	Proxy   []difference `json:"proxy"`
}

// difference is a flag of a program, or a field of the kubelet's configuration,
// with its two values; "-" is for none.
type difference struct {
	Program string `json:"program,omitempty"`
	Name    string `json:"name"`
	Kubeadm string `json:"kubeadm"`
	Loam    string `json:"loam"`
	// Why is the reason for it.
	Why string `json:"why"`
}

// networks are the networks of a cluster, and the address of its node.
type networks struct{ pods, services, address string }

// TestFlagsAreThoseOfKubeadm compares the flags of each program, and the
// configuration of the kubelet.
func TestFlagsAreThoseOfKubeadm(t *testing.T) {
	compareWithKubeadm(t, "kubeadm", version)
}

func TestEarlierFlagsAreThoseOfItsKubeadm(t *testing.T) {
	judge.Long(t, "TestFlagsAreThoseOfKubeadm, with the newest version")
	compareWithKubeadm(t, "kubeadm"+earlierEnding, earlierVersion)
}

func compareWithKubeadm(t *testing.T, program, version string) {
	t.Helper()
	kubeadm := cluster.Program(t, program)
	var want intended
	read(t, "testdata/kubeadm.yaml", &want)
	for _, d := range slices.Concat(want.Flags, want.SlowDisk, want.Kubelet) {
		if d.Why == "" {
			t.Errorf("%s %s: no reason for the difference", d.Program, d.Name)
		}
	}

	for name, n := range map[string]networks{
		"IPv4":          {"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"},
		"IPv4 and IPv6": {"10.244.0.0/16,fd00:1::/56", "10.96.0.0/16,fd00:2::/112", "192.0.2.10"},
		"IPv6":          {"fd00:1::/56", "fd00:2::/112", "2001:db8::10"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := runKubeadm(t, kubeadm, version, n)
			ours := plane.RenderPods(recordOf(t, n, version), node(n), plane.Images{})

			theirs := theirFlags(t, dir, want.Files)
			compare(t, want.Flags, differences(theirs, ourFlags(t, ours), n))
			slow := plane.RenderPods(recordOf(t, n, version), slowNode(n), plane.Images{})
			compare(t, slices.Concat(want.Flags, want.SlowDisk), differences(theirs, ourFlags(t, slow), n))
			compare(t, want.Kubelet, kubeletDifferences(t, dir, ours, want.Files))
		})
	}
}

func record(t testing.TB, n networks) plane.Record {
	t.Helper()
	return recordOf(t, n, version)
}

func recordOf(t testing.TB, n networks, version string) plane.Record {
	t.Helper()
	r, err := plane.Decode("cluster.yaml", []byte("apiVersion: loam.dev/v1alpha1\n"+
		"kind: Cluster\nname: plant-7\nkubernetes: "+version+"\n"+
		"pods: ["+n.pods+"]\nservices: ["+n.services+"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func node(n networks) plane.Member {
	return plane.Member{
		Name:     nodeName,
		Address:  netip.MustParseAddr(n.address),
		Programs: "/usr/bin",
		Keys:     pki.Files{Dir: plane.KeysDirectory},
	}
}

// slowNode is node with a disk that has the longest timing.
func slowNode(n networks) plane.Member {
	slow := node(n)
	slow.FsyncP99 = disk.SlowFsync
	return slow
}

// runKubeadm returns the directory with what kubeadm renders. A dry run writes
// nothing else.
func runKubeadm(t *testing.T, kubeadm, version string, n networks) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeadm-config")
	text := `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: "` + n.address + `", bindPort: 6443}
nodeRegistration: {name: ` + nodeName + `, criSocket: unix:///run/containerd/containerd.sock}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: plant-7
kubernetesVersion: v` + version + `
networking: {podSubnet: "` + n.pods + `", serviceSubnet: "` + n.services + `"}
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, phase := range [][]string{
		{"control-plane", "all"}, {"etcd", "local"}, {"kubelet-start"},
	} {
		args := slices.Concat([]string{"init", "phase"}, phase,
			[]string{"--config=" + config, "--dry-run"})
		cmd := exec.CommandContext(t.Context(), kubeadm, args...)
		cmd.Env = append(os.Environ(), "KUBEADM_INIT_DRYRUN_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubeadm %q: %v\n%s", args, err, out)
		}
	}
	return dir
}

// pod is what is read of a manifest.
type pod struct {
	Spec struct {
		Containers []struct {
			Command      []string
			VolumeMounts []struct{ MountPath string }
		}
	}
}

// programFlags are the flags of programs by their names.
type programFlags map[string]map[string]string

func (p pod) addTo(all programFlags) {
	command := p.Spec.Containers[0].Command
	flags := map[string]string{}
	for _, arg := range command[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	all[command[0]] = flags
}

func theirFlags(t *testing.T, dir string, files map[string]string) programFlags {
	t.Helper()
	all := programFlags{}
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	} {
		var p pod
		read(t, filepath.Join(dir, name+".yaml"), &p)
		p.addTo(all)
	}

	for _, flags := range all {
		for name, value := range flags {
			flags[name] = cmp.Or(files[value], value)
		}
	}
	return all
}

func ourPods(t *testing.T, d config.Desired) map[string]pod {
	t.Helper()
	pods := map[string]pod{}
	for _, f := range d.Files {
		if strings.HasPrefix(f.Path, "/etc/kubernetes/manifests/") {
			var p pod
			decode(t, f, &p)
			pods[f.Path] = p
		}
	}
	return pods
}

func ourFlags(t *testing.T, d config.Desired) programFlags {
	t.Helper()
	all := programFlags{}
	for _, p := range ourPods(t, d) {
		p.addTo(all)
	}
	return all
}

// differences returns the flags whose values are not the same. Addresses are
// written as words: kubeadm has etcd on loopback of the first family, Loam on
// 127.0.0.1.
func differences(theirs, ours programFlags, n networks) []difference {
	words := strings.NewReplacer(
		"["+n.address+"]", "ADDRESS", n.address, "ADDRESS", "[::1]", "LOOPBACK", "127.0.0.1", "LOOPBACK",
	)
	for _, all := range []programFlags{theirs, ours} {
		for _, flags := range all {
			for name, value := range flags {
				flags[name] = words.Replace(value)
			}
		}
	}

	var all []difference
	for program := range theirs {
		for _, d := range compared(theirs[program], ours[program]) {
			d.Program = program
			all = append(all, d)
		}
	}
	return all
}

// compared returns the names whose values are not the same.
func compared(theirs, ours map[string]string) []difference {
	var all []difference
	names := map[string]bool{}
	for _, values := range []map[string]string{theirs, ours} {
		for name := range values {
			names[name] = true
		}
	}

	for name := range names {
		a, inTheirs := theirs[name]
		b, inOurs := ours[name]
		if !inTheirs {
			a = "-"
		}
		if !inOurs {
			b = "-"
		}
		if a != b {
			all = append(all, difference{Name: name, Kubeadm: a, Loam: b})
		}
	}
	return all
}

// kubeletDifferences compares the configuration of the kubelet. Fields that
// kubeadm leaves at their zero are those that it does not set.
func kubeletDifferences(
	t *testing.T, dir string, ours config.Desired, files map[string]string,
) []difference {
	t.Helper()
	var their, our map[string]any
	read(t, filepath.Join(dir, "config.yaml"), &their)
	for _, f := range ours.Files {
		if f.Path == "/etc/kubernetes/kubelet.json" {
			decode(t, f, &our)
		}
	}

	// kubeadm names the DNS server of the first family only.
	our["clusterDNS"] = our["clusterDNS"].([]any)[:1]

	flatTheirs := map[string]string{}
	flatten(flatTheirs, "", their)
	for name, value := range flatTheirs {
		flatTheirs[name] = cmp.Or(files[value], value)
	}
	flatOurs := map[string]string{}
	flatten(flatOurs, "", our)

	return compared(flatTheirs, flatOurs)
}

// flatten adds the fields of an object by their paths, without zeros.
func flatten(into map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			flatten(into, strings.TrimPrefix(path+"."+name, "."), field)
		}
	default:
		text, _ := json.Marshal(value)
		plain := strings.Trim(string(text), `"`)
		if plain != "0s" && plain != "0" && plain != "{}" {
			into[path] = plain
		}
	}
}

func compare(t *testing.T, want, have []difference) {
	t.Helper()
	byName := cmpopts.SortSlices(func(a, b difference) bool {
		return a.Program+" "+a.Name < b.Program+" "+b.Name
	})
	if diff := gocmp.Diff(want, have, byName, cmpopts.IgnoreFields(difference{}, "Why"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("testdata/kubeadm.yaml (-intended +found):\n%s", diff)
	}
}

// TestKubeadmReadsTheKubeletsConfiguration: it decodes it strictly, so that a
// field of another name is found, which would keep the kubelet from starting.
func TestKubeadmReadsTheKubeletsConfiguration(t *testing.T) {
	validateKubelet(t, "kubeadm", version)
}

func TestEarlierKubeadmReadsTheKubeletsConfiguration(t *testing.T) {
	judge.Long(t, "TestKubeadmReadsTheKubeletsConfiguration, with the newest version")
	validateKubelet(t, "kubeadm"+earlierEnding, earlierVersion)
}

func validateKubelet(t *testing.T, program, version string) {
	t.Helper()
	kubeadm := cluster.Program(t, program)
	n := networks{"10.244.0.0/16,fd00:1::/56", "10.96.0.0/16,fd00:2::/112", "192.0.2.10"}
	r := recordOf(t, n, version)
	r.Schedulable = new(false)

	for _, f := range plane.Render(r, node(n)).Files {
		if f.Path != "/etc/kubernetes/kubelet.json" {
			continue
		}
		config := filepath.Join(t.TempDir(), "config")
		text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n" +
			"kubernetesVersion: v" + version + "\n---\n" + contentOf(t, f.Content)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		cmd := exec.CommandContext(t.Context(), kubeadm, "config", "validate", "--config="+config)
		if out, err := cmd.CombinedOutput(); err != nil { // It also has recommendations.
			t.Errorf("kubeadm config validate: %v\n%s\n%s", err, out, text)
		}
		return
	}
	t.Error("there is no configuration of the kubelet")
}

// TestPodsSeeTheirFiles: each file that a flag names is in a volume.
func TestPodsSeeTheirFiles(t *testing.T) {
	n := networks{"10.244.0.0/16", "10.96.0.0/16", "192.0.2.10"}
	for path, p := range ourPods(t, plane.RenderPods(record(t, n), node(n), plane.Images{})) {
		container := p.Spec.Containers[0]
		for _, arg := range container.Command {
			_, value, _ := strings.Cut(arg, "=")
			if !strings.HasPrefix(value, "/") {
				continue
			}
			mounted := false
			for _, m := range container.VolumeMounts {
				mounted = mounted || value == m.MountPath || strings.HasPrefix(value, m.MountPath+"/")
			}
			if !mounted {
				t.Errorf("%s: %s is in no volume", path, arg)
			}
		}
	}
}

// read reads a YAML file.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// decode reads a file of a configuration.
func decode(t *testing.T, f config.File, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(contentOf(t, f.Content)), into); err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}
}

func contentOf(t testing.TB, c config.Content) string {
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
