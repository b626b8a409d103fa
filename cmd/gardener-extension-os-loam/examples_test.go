package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilversion "k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const examples = repository + "/examples/gardener"

// imageVersion is IMAGE_VERSION of os-release.
func imageVersion(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(read(t, repository+"/os-release")) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "IMAGE_VERSION="); ok {
			return version
		}
	}
	t.Fatal("no IMAGE_VERSION in os-release")
	return ""
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decode decodes the documents of a text strictly, as kinds of Gardener and
// Kubernetes.
func decode(t *testing.T, text string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		gardencorev1.AddToScheme, gardencorev1beta1.AddToScheme, clientgoscheme.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	var objects []runtime.Object
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		object, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		objects = append(objects, object)
	}
	return objects
}

func example[T runtime.Object](t *testing.T, name string) T {
	t.Helper()
	for _, object := range decode(t, read(t, filepath.Join(examples, name))) {
		if found, ok := object.(T); ok {
			return found
		}
	}
	t.Fatalf("%s has no %T", name, *new(T))
	return *new(T)
}

// renderChart returns the objects that gardenlet makes of the chart, with the
// values of the example. The archive is made as the example says.
func renderChart(t *testing.T) []string {
	t.Helper()
	deployment := example[*gardencorev1.ControllerDeployment](t, "controller-registration.yaml")
	values := map[string]any{}
	if err := yaml.Unmarshal(deployment.Helm.Values.Raw, &values); err != nil {
		t.Fatal(err)
	}
	texts, err := renderWith(t, deployment.Name, values)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// renderWith is renderChart with other values.
func renderWith(t *testing.T, name string, values map[string]any) ([]string, error) {
	t.Helper()
	archive, err := exec.CommandContext(t.Context(), "tar", "-C", examples, "-cz", "chart").Output()
	if err != nil {
		t.Fatalf("tar: %v", err)
	}
	values["gardener"] = map[string]any{"version": "v1.149.0"}

	renderer := chartrenderer.NewWithServerVersion(&utilversion.Info{
		GitVersion: "v1.36.3",
		Major:      "1",
		Minor:      "36",
	})
	rendered, err := renderer.RenderArchive(archive, name, extensionNamespace, values)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, manifest := range rendered.Manifests {
		texts = append(texts, manifest.Content)
	}
	return texts, nil
}

// TestTheImageHasADigest: a tag is taken only if the values say so.
func TestTheImageHasADigest(t *testing.T) {
	const image = "registry.example.com/loam/gardener-extension-os-loam:0.1.0"
	digest := "@sha256:" + strings.Repeat("a", 64)
	for _, test := range []struct {
		name   string
		values map[string]any
		err    string
	}{
		{"a digest", map[string]any{"image": image + digest}, ""},
		{"a tag", map[string]any{"image": image}, "image: want IMAGE@sha256:DIGEST"},
		{"nothing", map[string]any{}, "image: want IMAGE@sha256:DIGEST"},
		{"a tag that is allowed", map[string]any{"image": image, "allowTag": true}, ""},
		{"nothing, which is allowed", map[string]any{"allowTag": true}, "image: empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := renderWith(t, "os-loam", test.values)
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%v, want %q", err, test.err)
			}
		})
	}
}

func TestChart(t *testing.T) {
	version := imageVersion(t)
	var meta struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(read(t, examples+"/chart/Chart.yaml")), &meta); err != nil {
		t.Fatal(err)
	}
	if meta.Name != name || meta.Version != version || meta.AppVersion != version {
		t.Errorf("Chart.yaml has %+v, want version %s", meta, version)
	}

	for _, text := range renderChart(t) {
		for _, object := range decode(t, text) {
			deployment, ok := object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			container := deployment.Spec.Template.Spec.Containers[0]
			if !strings.Contains(container.Image, "/gardener-extension-os-loam:"+version+"@sha256:") {
				t.Errorf("the image is %s, want version %s and a digest", container.Image, version)
			}
			if err := command().ParseFlags(container.Args); err != nil {
				t.Errorf("arguments %q: %v", container.Args, err)
			}
		}
	}
}

func TestControllerRegistration(t *testing.T) {
	registration := example[*gardencorev1beta1.ControllerRegistration](
		t,
		"controller-registration.yaml",
	)
	deployment := example[*gardencorev1.ControllerDeployment](t, "controller-registration.yaml")

	resources := registration.Spec.Resources
	if len(resources) != 1 ||
		resources[0].Kind != extensionsv1alpha1.OperatingSystemConfigResource ||
		resources[0].Type != Type {
		t.Errorf("resources %+v", resources)
	}
	if refs := registration.Spec.Deployment.DeploymentRefs; len(refs) != 1 ||
		refs[0].Name != deployment.Name {
		t.Errorf("the ControllerDeployment is %s, the references are %+v", deployment.Name, refs)
	}

	url := deployment.Helm.OCIRepository.GetURL()
	if !strings.Contains(url, "/os-loam:"+imageVersion(t)+"@sha256:") {
		t.Errorf("the chart is %s, want version %s and a digest", url, imageVersion(t))
	}
}

// TestShootOfTheCloudProfile: the CloudProfile has the image that the Shoot
// asks for, and a document with the Shoot's providerConfig has user data.
func TestShootOfTheCloudProfile(t *testing.T) {
	image := example[*gardencorev1beta1.CloudProfile](t, "cloudprofile.yaml").Spec.MachineImages[0]
	worker := example[*gardencorev1beta1.Shoot](t, "shoot.yaml").Spec.Provider.Workers[0]
	version := imageVersion(t)

	if image.Name != Type || worker.Machine.Image.Name != Type {
		t.Errorf("images %s and %s, want %s", image.Name, worker.Machine.Image.Name, Type)
	}
	if got := image.Versions[0]; got.Version != version || !got.InPlaceUpdates.Supported ||
		*got.InPlaceUpdates.MinVersionForUpdate != version {
		t.Errorf("the CloudProfile has version %+v, want %s", got, version)
	}
	if got := *worker.Machine.Image.Version; got != version {
		t.Errorf("the Shoot has version %s, want %s", got, version)
	}

	osc := provision(t, pool{worker: worker})
	osc.Spec.ProviderConfig = worker.Machine.Image.ProviderConfig
	if _, err := userData(osc); err != nil {
		t.Error(err)
	}
}
