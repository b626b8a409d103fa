package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/shoot"
	"github.com/loam-os/loam/test/vm"
)

// worker is the name of the machine, and of its Node.
const worker = "shoot--loam--edge-worker-1"

// registry is the host of the images that Gardener names.
const registry = "europe-docker.pkg.dev"

// gardened is a Shoot of a Gardener in a test: its control plane with
// Gardener's own authorizer and approver in front of it, and a registry with
// all images.
type gardened struct {
	*clusterTest
	documents   []shoot.Document
	environment shoot.Environment
}

// TestWorkersOfAGardenerShoot starts the image from an empty disk by the user
// data that the extension os-loam makes, and gives it documents that Gardener's
// own code rendered: of a default pool, and of one with a data volume, which
// then gets a patch of Kubernetes.
func TestWorkersOfAGardenerShoot(t *testing.T) {
	judge.Long(t, "TestNodeOfACluster")
	parallel(t, 6*time.Minute)
	b := open(t)
	g := newGardened(t, b.manifest.Arch)

	t.Run("a pool of defaults, without SSH", func(t *testing.T) {
		g.T = t
		n := g.worker(b, "ssh-off")
		g.installNetwork()
		g.runs("ssh-off")
		g.hello()
		n.want("cat /var/lib/opentelemetry-collector/auth-token", "token")
		n.want("systemctl is-active containerd-logrotate.timer opentelemetry-collector.service",
			"active\nactive")
		n.off()

		_, err := g.Do(http.MethodDelete, g.node(), "")
		if err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a pool with a data volume", func(t *testing.T) {
		g.T = t
		n := g.worker(b, "data-volume")
		g.runs("data-volume")
		mounted := func() {
			n.want("findmnt -no FSTYPE,LABEL /var/lib/kubelet | tr -s ' '", "ext4 KUBEDEV")
			n.want("findmnt -n /var/lib/kubelet | wc -l", "1")
			n.want("systemctl is-active var-lib-kubelet.mount", "active")
		}

		mounted()

		// A patch of Kubernetes restarts the kubelet alone, on the volume.
		before := n.invocations("kubelet.service", "containerd.service")
		g.publish("data-volume", "data-volume-patch")
		g.runs("data-volume-patch")

		after := n.invocations("kubelet.service", "containerd.service")
		for name, id := range after {
			if restarted := id != before[name]; restarted != (name == "kubelet.service") {
				t.Errorf("%s restarted: %v", name, restarted)
			}
		}

		mounted()
		g.await("the Node has the label", g.node(),
			carries("labels", "worker.gardener.cloud/kubernetes-version", "1.36.4"))
		n.off()
	})
}

// worker starts a new machine of a pool, with an empty disk beside the image's.
// The pool is named after its document.
func (g *gardened) worker(b build, pool string) *node {
	g.Helper()
	g.publish(pool, pool)

	m := b.flash(g.T, b.file(".raw"))
	disk := filepath.Join(m.config.Dir, "kubelet")
	err := errors.Join(
		os.WriteFile(disk, nil, 0o600),
		os.Truncate(disk, 25<<30),
		g.Connect(&m.config),
	)
	if err != nil {
		g.Fatal(err)
	}

	m.config.Arguments = dataDisks(m.config.Dir, dataDisk{"kubelet", 25 << 30, 512})

	n := m.on(g.T, map[string]string{"loam.machine": g.userData(pool)})
	n.shell()

	return n
}

func newGardened(t *testing.T, arch string) *gardened {
	t.Helper()
	g := &gardened{
		clusterTest: &clusterTest{
			T: t,
			Fixture: testcluster.Fixture{
				Cluster: shoot.Run(t,
					shoot.Options{Cluster: cluster.Options{Controllers: true, Scheduler: true}}),
				Registry: cluster.StartRegistry(t, cluster.RegistryOptions{}),
				Arch:     arch,
			},
		},
		documents: shoot.Documents(t),
	}

	g.environment = shoot.Environment{
		Server:   g.GuestURL(),
		CA:       g.CA(),
		Registry: "http://" + g.Registry.GuestAddress(),
	}

	for _, name := range []string{"ssh-off", "data-volume", "data-volume-patch"} {
		g.push(g.document(shoot.Reconcile, name))
	}

	g.pushNamed("pause", "registry.k8s.io/pause:3.10", testcluster.Greet)
	g.pushNamed("hello", registry+"/hello:v1", testcluster.Greet)
	g.pushNamed("install", registry+"/network:v1", installer)
	g.put("gardener-opentelemetry-collector", "token", "token")

	return g
}

func (g *gardened) node() string { return "/api/v1/nodes/" + worker }

func (g *gardened) document(kind, name string) shoot.Document {
	g.Helper()
	for _, d := range g.documents {
		if d.Kind == kind && d.Name == name {
			return d
		}
	}
	g.Fatalf("no %s document %s", kind, name)
	return shoot.Document{}
}

// osc is the part of a document that says which images it has.
type osc struct {
	Spec struct {
		Files []struct {
			Path    string
			Content struct {
				ImageRef *struct{ Image, FilePathInImage string }
			}
		}
	}
}

// push fills the registry with the images that a document refers to: the real
// kubelet, and the stub of all else.
func (g *gardened) push(d shoot.Document) {
	g.Helper()
	var document osc
	err := yaml.Unmarshal(d.OSC, &document)
	if err != nil {
		g.Fatal(err)
	}

	for _, f := range document.Spec.Files {
		ref := f.Content.ImageRef
		if ref == nil {
			continue
		}

		program := shoot.Stub(g, g.Arch)
		if filepath.Base(f.Path) == "kubelet" {
			// Each patch is another program, which behaves the same.
			program = append(readFile(g.T, cluster.Program(g, "kubelet")), ref.Image...)
		}

		g.pushProgram(ref.Image, ref.FilePathInImage, program)
	}
}

// pushProgram pushes an image with one program, under a reference that begins
// with the host of its registry.
func (g *gardened) pushProgram(ref, path string, content []byte) {
	g.Helper()
	_, name, _ := strings.Cut(ref, "/")
	path = strings.TrimPrefix(path, "/")
	image := cluster.Image{
		Arch:       g.Arch,
		Layers:     []cluster.Layer{{path: {Content: content, Mode: 0o755}}},
		Entrypoint: []string{"/" + path},
	}

	_, err := g.Registry.PushImage(name, image)
	if err != nil {
		g.Fatal(err)
	}
}

// pushNamed pushes an image with the Go program of that source.
func (g *gardened) pushNamed(name, ref, source string) {
	g.Helper()
	built, err := testcluster.Program(g.Context(), g.Arch, source)
	if err != nil {
		g.Fatal(err)
	}
	g.pushProgram(ref, name, built)
}

// original returns the osc.yaml of a document for this environment.
func (g *gardened) original(name string) []byte {
	g.Helper()
	text, err := g.environment.Original(g.document(shoot.Reconcile, name))
	if err != nil {
		g.Fatal(err)
	}
	return text
}

// publish writes a document into the Secret of a pool, as a gardenlet does.
func (g *gardened) publish(pool, name string) {
	g.Helper()
	var secret map[string]any
	err := yaml.Unmarshal(g.document(shoot.Reconcile, pool).Secret, &secret)
	if err != nil {
		g.Fatal(err)
	}

	text := g.original(name)
	delete(secret, "data")
	secret["stringData"] = map[string]any{"osc.yaml": string(text)}
	metadata := secret["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{"checksum/data-script": checksum(text)}

	body, err := json.Marshal(secret)
	if err != nil {
		g.Fatal(err)
	}

	at := "/api/v1/namespaces/kube-system/secrets"
	_, err = g.Do(http.MethodPut, at+"/"+metadata["name"].(string), string(body))
	var missing *cluster.StatusError
	if errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		_, err = g.Do(http.MethodPost, at, string(body))
	}

	if err != nil {
		g.Fatal(err)
	}
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// runs waits until the Node is Ready and says that it runs the document.
func (g *gardened) runs(name string) {
	g.Helper()
	g.await("the Node runs "+name, g.node(),
		carries("annotations", appliedSum, checksum(g.original(name))))
	g.await("all units are well", g.node(), testcluster.Condition("SystemdUnitsReady", "True"))
	g.await("the Node is Ready", g.node(), testcluster.Condition("Ready", "True"))
}

// userData is what Gardener starts the machine with: the extension's answer to
// a provision document, with the placeholders replaced, and a shell for the
// test.
func (g *gardened) userData(name string) string {
	g.Helper()
	document, err := g.environment.Init(g.document(shoot.Provision, name))
	if err != nil {
		g.Fatal(err)
	}

	file := filepath.Join(g.TempDir(), "osc.yaml")
	err = os.WriteFile(file, document, 0o600)
	if err != nil {
		g.Fatal(err)
	}

	cmd := exec.CommandContext(g.Context(), "go", "run", "-trimpath", ".", "user-data", file)
	cmd.Dir = "../../cmd/gardener-extension-os-loam"
	var problem bytes.Buffer
	cmd.Stderr = &problem

	text, err := cmd.Output()
	if err != nil {
		g.Fatalf("user data: %v\n%s", err, &problem)
	}

	placeholders := strings.NewReplacer(
		"<<BOOTSTRAP_TOKEN>>", g.BootstrapToken(g.T),
		"<<MACHINE_NAME>>", worker,
	)

	return placeholders.Replace(string(text)) + fmt.Sprintf("hostname: %s\ndebugShell: [%s]\n",
		worker, vm.ShellTTY(g.Arch))
}

// installer copies the programs of the pod network from the image to where
// kubelets look for them, and writes its configuration, as the DaemonSet of a
// Shoot's network does.
const installer = `package main

import (
	"os"
	"time"
)

const network = "{\"cniVersion\": \"1.0.0\", \"name\": \"pods\", \"plugins\": [{\"type\": \"bridge\", \"bridge\": \"cni0\", \"isGateway\": true," +
	"\"ipam\": {\"type\": \"host-local\", \"ranges\": [[{\"subnet\": \"10.85.0.0/24\"}]], \"routes\": [{\"dst\": \"0.0.0.0/0\"}]}}]}"

func main() {
	for _, name := range []string{"bridge", "host-local", "loopback"} {
		program, err := os.ReadFile("/image/" + name)
		must(err)
		must(os.WriteFile("/programs/"+name, program, 0o755))
	}
	must(os.WriteFile("/network/10-bridge.conflist", []byte(network), 0o644))
	time.Sleep(1 << 62)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
`

// installNetwork runs the network's DaemonSet.
func (g *gardened) installNetwork() {
	g.Helper()
	volume := func(name, path, kind string) string {
		return fmt.Sprintf(`{"name": %q, "hostPath": {"path": %q, "type": %q}}`, name, path, kind)
	}

	mount := func(name string) string {
		return fmt.Sprintf(`{"name": %q, "mountPath": "/%[1]s"}`, name)
	}

	_, err := g.Do(http.MethodPost, "/apis/apps/v1/namespaces/kube-system/daemonsets", `{
		"metadata": {"name": "network"},
		"spec": {
			"selector": {"matchLabels": {"app": "network"}},
			"template": {
				"metadata": {"labels": {"app": "network"}},
				"spec": {
					"hostNetwork": true,
					"priorityClassName": "system-node-critical",
					"tolerations": [{"operator": "Exists"}],
					"containers": [{
						"name": "network",
						"image": "`+registry+`/network:v1",
						"volumeMounts": [`+mount("image")+`, `+mount("programs")+`, `+mount("network")+`]
					}],
					"volumes": [
						`+volume("image", "/usr/lib/cni", "Directory")+`,
						`+volume("programs", "/opt/cni/bin", "DirectoryOrCreate")+`,
						`+volume("network", "/etc/cni/net.d", "DirectoryOrCreate")+`
					]
				}
			}
		}
	}`)
	if err != nil {
		g.Fatal(err)
	}
}

// hello runs a pod on the Node.
func (g *gardened) hello() {
	g.Helper()
	_, err := g.Do(http.MethodPost, podsAPI, `{
		"metadata": {"name": "hello"},
		"spec": {
			"tolerations": [{"operator": "Exists"}],
			"containers": [{"name": "hello", "image": "`+registry+`/hello:v1"}]
		}
	}`)
	if err != nil {
		g.Fatal(err)
	}
	g.await("the pod runs", podsAPI+"/hello", testcluster.Condition("Ready", "True"))
}
