package main

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	nodeagentconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/nodeagent/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/nodeinit"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/original/components/nodeagent"
	machinecontroller "github.com/gardener/machine-controller-manager/pkg/util/provider/machinecontroller"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/initial"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
)

// authority has the size of a real bundle during a rotation: two certificates.
var authority = []byte(strings.Repeat(
	"-----BEGIN CERTIFICATE-----\n"+strings.Repeat(
		strings.Repeat("a", 64)+"\n",
		22,
	)+"-----END CERTIFICATE-----\n",
	2,
))

// pool is what a Shoot says of the machines that a document is for.
type pool struct {
	worker     gardencorev1beta1.Worker
	registryCA bool
}

// provision is the OperatingSystemConfig that Gardener's own code makes for new
// machines.
func provision(t *testing.T, p pool) *extensionsv1alpha1.OperatingSystemConfig {
	t.Helper()
	config := nodeagent.ComponentConfig(
		"gardener-node-agent-pool-77ac3",
		semver.MustParse("1.36.3"),
		"https://api.project.example.com",
		[]nodeagentconfigv1alpha1.TokenSecretSyncConfig{{
			SecretName: "gardener-opentelemetry-collector",
			Path:       "/var/lib/opentelemetry-collector/auth-token",
		}},
	)
	units, files, err := nodeinit.Config(
		p.worker,
		"registry.example.com/node-agent:v1",
		config,
		authority,
		p.registryCA,
	)
	if err != nil {
		t.Fatal(err)
	}

	return &extensionsv1alpha1.OperatingSystemConfig{
		TypeMeta: metav1.TypeMeta{
			APIVersion: extensionsv1alpha1.SchemeGroupVersion.String(),
			Kind:       extensionsv1alpha1.OperatingSystemConfigResource,
		},
		ObjectMeta: metav1.ObjectMeta{
			Name:      "gardener-node-agent-pool-77ac3-init",
			Namespace: "shoot--project--example",
		},
		Spec: extensionsv1alpha1.OperatingSystemConfigSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: Type},
			Purpose:     extensionsv1alpha1.OperatingSystemConfigPurposeProvision,
			Units:       units,
			Files:       files,
		},
	}
}

// created replaces the placeholders as Gardener's machine-controller-manager
// does.
func created(text []byte, token, name string) []byte {
	out := strings.ReplaceAll(string(text), machinecontroller.BootstrapTokenPlaceholder, token)
	return []byte(strings.ReplaceAll(out, machinecontroller.MachineNamePlaceholder, name))
}

// drive is a drive that a hypervisor makes of user data.
type drive struct{ text []byte }

func (drive) String() string { return "sr0 (CIDATA)" }

func (drive) Serial() string { return "" }

func (d drive) Read(int64, ...string) (map[string][]byte, error) {
	return map[string][]byte{"user-data": d.text, "meta-data": []byte("instance-id: x\n")}, nil
}

// started returns the files in the node agent's directory, with their modes, of
// a machine that was started with user data.
func started(t *testing.T, text []byte) (machine.Machine, map[string]string) {
	t.Helper()
	doc, err := source.Find(
		t.Context(),
		source.Env{Drives: func() ([]source.Drive, error) { return []source.Drive{drive{text}}, nil }},
	)
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.Decode(doc.Name, doc.Text)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := initial.Place(durable.New(root, nil), m.Files, false); err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}
	for _, f := range m.Files {
		name := filepath.Join(dir, f.Path)
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Path] = info.Mode().String() + " " + string(content)
	}
	return m, files
}

// TestUserData: a machine that was started with the user data for a document of
// Gardener has all files that the reference needs to join, byte for byte.
func TestUserData(t *testing.T) {
	// All digits, and an exponent: YAML has such tokens as numbers, if they are
	// not in quotes.
	const token, name = "123456.1234567890123e10", "shoot--project--example-pool-z1-5d8c7-x2x7b"

	for _, test := range []struct {
		name string
		pool pool
		edit func(osc *extensionsv1alpha1.OperatingSystemConfig)
	}{
		{name: "the defaults"},
		{name: "a registry with a certificate authority of its own", pool: pool{registryCA: true}},
		{
			name: "a volume for kubelet",
			pool: pool{worker: gardencorev1beta1.Worker{
				DataVolumes: []gardencorev1beta1.DataVolume{{
					Name:       "kubelet",
					VolumeSize: "50Gi",
				}},
				KubeletDataVolumeName: new("kubelet"),
			}},
		},
		{
			name: "a file that is no text",
			edit: func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Spec.Files = append(osc.Spec.Files, extensionsv1alpha1.File{
					Path: nodeagentconfigv1alpha1.BaseDir + "/blob",
					Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{
						Encoding: "b64",
						Data:     "AAH/",
					}},
				})
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			osc := provision(t, test.pool)
			if test.edit != nil {
				test.edit(osc)
			}
			text, err := userData(osc)
			if err != nil {
				t.Fatal(err)
			}

			want := map[string]string{}
			for _, f := range osc.Spec.Files {
				if !strings.HasPrefix(f.Path, nodeagentconfigv1alpha1.BaseDir) ||
					strings.HasSuffix(f.Path, ".sh") {
					continue
				}
				content := []byte(f.Content.Inline.Data)
				if f.Content.Inline.Encoding == "b64" {
					content, err = base64.StdEncoding.DecodeString(f.Content.Inline.Data)
					if err != nil {
						t.Fatal(err)
					}
				}
				mode := os.FileMode(0o600)
				if f.Permissions != nil {
					mode = os.FileMode(*f.Permissions)
				}
				want[f.Path] = mode.String() + " " + string(created(content, token, name))
			}

			m, got := started(t, created(text, token, name))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if m.Source.NodeAgent == nil || m.MachineName() != name {
				t.Errorf("source %+v, machine %q", m.Source, m.MachineName())
			}
		})
	}
}

func TestPlaceholdersAreThoseOfTheMachineControllerManager(t *testing.T) {
	want := []string{
		machinecontroller.BootstrapTokenPlaceholder, machinecontroller.MachineNamePlaceholder,
	}
	if diff := cmp.Diff(want, machine.Placeholders); diff != "" {
		t.Errorf("placeholders (-want +got):\n%s", diff)
	}
}

func TestUserDataSaysWhatIsLeftOut(t *testing.T) {
	osc := provision(t, pool{registryCA: true})
	osc.Spec.Units = append(osc.Spec.Units, extensionsv1alpha1.Unit{Name: "proxy.service"})
	text, err := userData(osc)
	if err != nil {
		t.Fatal(err)
	}

	head, _, _ := strings.Cut(string(text), "apiVersion:")
	want := "#loam\n# left out: \"proxy.service\"\n# left out: \"/var/lib/ssl/update-local-ca-certificates.sh\"\n"
	if diff := cmp.Diff(want, head); diff != "" {
		t.Errorf("the head (-want +got):\n%s", diff)
	}
}

// withConfig is a document for a pool whose image has this providerConfig.
func withConfig(t *testing.T, config string) *extensionsv1alpha1.OperatingSystemConfig {
	t.Helper()
	osc := provision(t, pool{})
	osc.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(config)}
	return osc
}

func TestProviderConfig(t *testing.T) {
	const config = `{"apiVersion":"loam.dev/v1alpha1","kind":"Machine","hostnameFrom":"dhcp",` +
		`"upgrade":{"repository":"https://updates.example.com","root":"{\n  \"signed\": {\"_type\": \"root\"}\n}\n","version":"1.10"},"debugShell":["ttyS1"]}`
	text, err := userData(withConfig(t, config))
	if err != nil {
		t.Fatal(err)
	}

	m, _ := started(t, created(text, "abcdef.0123456789abcdef", "machine-1"))
	want, err := machine.Decode("config", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	want.Source, want.Files = m.Source, m.Files
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
}

func TestUserDataErrors(t *testing.T) {
	const head = `{"apiVersion":"loam.dev/v1alpha1","kind":"Machine",`
	edited := func(
		edit func(spec *extensionsv1alpha1.OperatingSystemConfigSpec),
	) *extensionsv1alpha1.OperatingSystemConfig {
		osc := provision(t, pool{})
		edit(&osc.Spec)
		return osc
	}
	content := func(c extensionsv1alpha1.FileContent) *extensionsv1alpha1.OperatingSystemConfig {
		return edited(func(spec *extensionsv1alpha1.OperatingSystemConfigSpec) {
			spec.Files[0].Content = c
		})
	}

	for _, test := range []struct {
		name string
		osc  *extensionsv1alpha1.OperatingSystemConfig
		want string
	}{
		{
			name: "a document of the other purpose",
			osc: edited(func(spec *extensionsv1alpha1.OperatingSystemConfigSpec) {
				spec.Purpose = "reconcile"
			}),
			want: `spec.purpose: "reconcile" has no user data: want provision`,
		},
		{
			name: "a machine that gardenadm sets up",
			osc: edited(func(spec *extensionsv1alpha1.OperatingSystemConfigSpec) {
				units, files, err := nodeinit.GardenadmConfig("ssh-rsa AAAA")
				if err != nil {
					t.Fatal(err)
				}
				spec.Units, spec.Files = units, files
			}),
			want: `spec.files: no /var/lib/gardener-node-agent/config-*.yaml, without which a machine cannot join its cluster
spec.files: no /var/lib/gardener-node-agent/cluster-ca.crt, without which a machine cannot join its cluster
spec.files: no /var/lib/gardener-node-agent/credentials/bootstrap-token, without which a machine cannot join its cluster`,
		},
		{
			name: "a Secret",
			osc: content(extensionsv1alpha1.FileContent{SecretRef: &extensionsv1alpha1.FileContentSecretRef{
				Name:    "ca",
				DataKey: "bundle.crt",
			}}),
			want: "spec.files[0], /var/lib/gardener-node-agent/cluster-ca.crt: has no inline content, and a new machine can fetch none",
		},
		{
			name: "no base64",
			osc: content(extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{
				Encoding: "b64",
				Data:     "?",
			}}),
			want: "spec.files[0], /var/lib/gardener-node-agent/cluster-ca.crt: decode the content: illegal base64 data at input byte 0",
		},
		{
			name: "a file that Loam refuses",
			osc: edited(func(spec *extensionsv1alpha1.OperatingSystemConfigSpec) {
				spec.Files[0].Permissions = new(uint32(0o666))
			}),
			want: "files[0].mode: 0666 lets others write",
		},
		{
			name: "more than a provider takes",
			osc: content(extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{
				Data: strings.Repeat("a", maxUserData),
			}}),
			want: "bytes, more than the 16384 that providers take",
		},
		{
			name: "a host name for all machines of a pool",
			osc:  withConfig(t, head+`"hostname":"a"}`),
			want: "spec.providerConfig.hostname: Gardener says that for each machine; hint: leave it out",
		},
		{
			name: "another source", osc: withConfig(t, head+`"source":{"file":{"path":"/a"}}}`),
			want: "spec.providerConfig.source: Gardener says that for each machine; hint: leave it out",
		},
		{
			name: "a field that Loam does not know", osc: withConfig(t, head+`"upgrades":{}}`),
			want: "spec.providerConfig:1: upgrades: unknown field; hint: did you mean upgrade?",
		},
		{
			name: "a configuration of another provider",
			osc: withConfig(
				t,
				`{"apiVersion":"memoryone.os.extensions.gardener.cloud/v1alpha1","kind":"OperatingSystemConfiguration"}`,
			),
			want: "is not known here; hint: write apiVersion: loam.dev/v1alpha1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := userData(test.osc)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("userData: error %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestUserDataCommand prints the same for a document in a file.
func TestUserDataCommand(t *testing.T) {
	osc := provision(t, pool{})
	want, err := userData(osc)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "osc.yaml")
	if err := os.WriteFile(name, marshal(t, osc), 0o600); err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	if err := run(t.Context(), &out, "user-data", name); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("user-data (-want +got):\n%s", diff)
	}

	if err := os.WriteFile(name, []byte("kind: Secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), &out, "user-data", name)
	if err == nil || !strings.Contains(err.Error(), `kind: "Secret", want OperatingSystemConfig`) {
		t.Errorf("user-data of a Secret: %v", err)
	}
}

// run runs the command with these arguments.
func run(ctx context.Context, out io.Writer, args ...string) error {
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	return cmd.ExecuteContext(ctx)
}
