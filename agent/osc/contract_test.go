package osc_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
)

// full reads testdata/full.yaml, the example of the contract.
func full(t testing.TB) osc.OperatingSystemConfig {
	t.Helper()
	text, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(text))
}

func decode(t testing.TB, text string) osc.OperatingSystemConfig {
	t.Helper()
	decoded, err := osc.Decode("c", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func merge(t testing.TB, document osc.OperatingSystemConfig, env osc.Env) config.Desired {
	t.Helper()
	desired, err := osc.Merge(document, env)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}

// contents returns content for each reference.
func contents(references []osc.Reference) map[osc.Reference]config.Content {
	found := map[osc.Reference]config.Content{}
	for _, reference := range references {
		found[reference] = config.Text(reference.String())
	}
	return found
}

// The contract's example decodes, validates and merges.
func TestContractExample(t *testing.T) {
	document := full(t)
	env := osc.Env{Hostname: "nuc-01"}
	if err := osc.Validate(document, env); err != nil {
		t.Errorf("Validate without contents: %v", err)
	}

	references := osc.References(document, env)
	diff := cmp.Diff([]osc.Reference{
		{Image: "registry.site.local/hyperkube:v1.35.0", Path: "/kubelet"},
		{Secret: "ca-kubelet-bundle-3f2a", Key: "bundle.crt"},
	}, references)
	if diff != "" {
		t.Errorf("References (-want +got):\n%s", diff)
	}

	env.Contents = contents(references)
	desired := merge(t, document, env)

	var paths []string
	for _, file := range desired.Files {
		paths = append(paths, file.Path)
	}
	if diff := cmp.Diff([]string{
		"/etc/containerd/certs.d/docker.io/hosts.toml", "/etc/containerd/config.toml",
		"/etc/edge/identity", "/etc/site.conf",
		"/etc/sysctl.d/99-k8s-general.conf", "/opt/bin/kubelet",
		"/var/lib/ca-certificates-local/ROOTcerts.crt",
		"/var/lib/kubelet/ca.crt", "/var/lib/kubelet/config/kubelet",
	}, paths); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff([]config.Probe{{
		Path:    "/etc/containerd/certs.d/docker.io/hosts.toml",
		URLs:    []string{"https://mirror.site.local:5000"},
		CACerts: []string{"/etc/ssl/site-ca.crt"},
	}}, desired.Probes); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff(&config.Update{
		OSVersion:              "1632.0.0",
		Kubelet:                "1.35.0",
		CertificateAuthorities: time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC),
	}, desired.Update); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff([]string{"/opt/bin/gardener-node-agent", "gardener-node-agent.service"},
		leftOut(desired)); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}

	wantUnits := []string{
		"containerd.service", "kubelet.service", "legacy-logger.service", "systemd-sysctl.service",
	}
	if diff := cmp.Diff(wantUnits, unitNames(desired)); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}

	containerd := desired.Units[0]
	var dropIns []string
	for _, dropIn := range containerd.DropIns {
		dropIns = append(dropIns, dropIn.Name)
	}
	if diff := cmp.Diff([]string{"20-limits.conf", "30-env_config.conf", "30-site.conf"},
		dropIns); diff != "" {
		t.Errorf("drop-ins of containerd (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff(
		[]string{"/etc/containerd/config.toml", "/var/lib/ca-certificates-local/ROOTcerts.crt"},
		containerd.FilePaths,
	); diff != "" {
		t.Errorf("what restarts containerd (-want +got):\n%s", diff)
	}
}

func leftOut(desired config.Desired) (names []string) {
	for _, out := range desired.LeftOut {
		names = append(names, out.Name)
	}
	return names
}

func unitNames(desired config.Desired) (names []string) {
	for _, unit := range desired.Units {
		names = append(names, unit.Name)
	}
	return names
}

// Fields whose names have several words are read, not lost for want of a tag.
func TestWeakPoint06CamelCaseNamesAreRead(t *testing.T) {
	document := full(t)
	containerd := document.Spec.Units[0]
	if len(containerd.DropIns) != 1 || len(containerd.FilePaths) != 1 ||
		document.Spec.CRIConfig == nil ||
		document.Spec.CRIConfig.CgroupDriver == nil || len(document.Status.ExtensionUnits) != 1 ||
		document.Spec.Files[6].HostName == nil {
		t.Errorf("decoded %+v", document)
	}

	for _, misspelt := range []string{"dropins", "drop_ins", "filepaths", "FilePaths"} {
		_, err := osc.Decode("c", []byte(unit("name: a.service", misspelt+": []")))
		if err == nil || !strings.Contains(err.Error(),
			"c:6: spec.units[0]."+misspelt+": unknown field; hint: did you mean ") {
			t.Errorf("%s: error %v", misspelt, err)
		}
	}
}

// Every two entries for one host are compared, not only each with the first.
func TestWeakPoint10bPathTwiceInLaterEntriesOfAHost(t *testing.T) {
	entry := func(host string) string {
		return "  - {path: /etc/a, hostName: " + host + ", content: {inline: {data: x}}}\n"
	}

	for _, test := range []struct {
		name  string
		hosts []string
		want  string
	}{
		{
			name:  "the second and the third",
			hosts: []string{"a", "b", "b"},
			want:  `c:7: spec.files[2].path: "/etc/a" given twice, first at spec.files[1].path`,
		},
		{
			name:  "the second and the fourth",
			hosts: []string{"a", "b", "c", "b"},
			want:  `c:8: spec.files[3].path: "/etc/a" given twice, first at spec.files[1].path`,
		},
		{name: "each another", hosts: []string{"a", "b", "c", "d"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := head + "  files:\n"
			for _, host := range test.hosts {
				text += entry(host)
			}

			err := mergeText(text, osc.Env{Hostname: "other"})
			got := message(err)
			if (got != test.want && !strings.HasPrefix(got, test.want+"; ")) ||
				(test.want == "" && err != nil) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// An attribute that a file cannot have is an error, not a field without effect.
// Permissions are applied in full, whatever the umask.
func TestWeakPoint19FilesHaveNoHiddenAttributes(t *testing.T) {
	for _, field := range []string{"owner: root", "group: root", "selinux: x", "mode: 0644"} {
		if err := mergeText(file("/etc/a")+"    "+field+"\n", osc.Env{}); err == nil ||
			!strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: error %v", field, err)
		}
	}
	desired := merge(t, decode(t, file("/etc/a")+"    permissions: 0o6777\n"), osc.Env{})
	if got, want := desired.Files[0].Mode, os.ModeSetuid|os.ModeSetgid|0o777; got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
}

// References of another node's files and of Loam's own are not fetched.
func TestReferencesLeaveOutWhatIsNotForThisNode(t *testing.T) {
	ref := func(path, host, key string) string {
		return "  - {path: " + path + ", hostName: " + host + ", content: {secretRef: {name: " +
			"s, dataKey: " + key + "}}}\n"
	}
	document := decode(t, head+"  files:\n"+ref("/etc/b", "here", "k")+ref("/etc/a", "here", "k")+
		ref("/etc/c", "there", "l")+
		ref("/opt/bin/gardener-node-agent", "here", "m"))
	want := []osc.Reference{{Secret: "s", Key: "k"}}
	if diff := cmp.Diff(want, osc.References(document, osc.Env{Hostname: "HERE"})); diff != "" {
		t.Errorf("References (-want +got):\n%s", diff)
	}
}
