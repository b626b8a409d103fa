package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gardener/gardener/extensions/pkg/controller"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/test/cluster"
)

// Namespaces of a seed: of the extension, as gardenlet makes it, and of a
// Shoot.
const (
	extensionNamespace = "extension-os-loam"
	shootNamespace     = "shoot--project--example"
)

// repository is the root of the checkout.
const repository = "../.."

// seed is a cluster with the extension in it.
type seed struct {
	client client.Client
	// health and metrics are the addresses of the controller.
	health, metrics string
	// extension is a client with the rights of the controller, whose requests are in
	// requests.
	extension client.Client
	requests  *recorder
}

// startSeed starts an API server with Gardener's resources and the controller,
// which has the rights that its chart gives it.
func startSeed(t *testing.T) seed {
	t.Helper()
	t.Chdir(repository) // The programs of the cluster are built there.
	control := cluster.Start(t, cluster.Options{})
	t.Chdir("cmd/gardener-extension-os-loam")

	kubeconfig := control.Kubeconfig(
		t,
		"system:serviceaccount:"+extensionNamespace+":gardener-extension-os-loam",
	)
	s := seed{
		client:    connect(t, control.Admin(t)),
		health:    freeAddress(t),
		metrics:   freeAddress(t),
		extension: connect(t, kubeconfig),
		requests:  &recorder{seen: map[access]bool{}},
	}
	for _, name := range []string{"operatingsystemconfigs", "clusters"} {
		s.install(t, name)
	}
	s.create(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+extensionNamespace+"}\n")
	s.create(
		t,
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+shootNamespace+", labels: {gardener.cloud/role: shoot}}\n",
	)
	s.create(t, `apiVersion: extensions.gardener.cloud/v1alpha1
kind: Cluster
metadata: {name: `+shootNamespace+`}
spec:
  cloudProfile: {apiVersion: core.gardener.cloud/v1beta1, kind: CloudProfile}
  seed: {apiVersion: core.gardener.cloud/v1beta1, kind: Seed}
  shoot: {apiVersion: core.gardener.cloud/v1beta1, kind: Shoot}
`)
	for _, text := range renderChart(t) {
		s.create(t, text)
	}

	s.start(t, s.requests.front(t, kubeconfig))
	return s
}

// start runs the controller until the end of t.
func (s seed) start(t *testing.T, kubeconfig string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEADER_ELECTION_NAMESPACE", extensionNamespace)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(
			ctx,
			io.Discard,
			"--kubeconfig="+file,
			"--health-bind-address="+s.health,
			"--metrics-bind-address="+s.metrics,
			"--log-level=error",
			"--heartbeat-renew-interval-seconds=1",
		)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the controller: %v", err)
		}
	})
}

// connect is a client of those with a kubeconfig.
func connect(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}

	scheme := runtime.NewScheme()

	err = errors.Join(clientgoscheme.AddToScheme(scheme), controller.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}

	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// freeAddress returns an address of loopback that nothing listens on. No outgoing
// connection takes its port: those have 127.0.0.1.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp",
		fmt.Sprintf("127.%d.%d.1:0", 1+rand.IntN(250), rand.IntN(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// install makes the CustomResourceDefinition that is in Gardener's module.
func (s seed) install(t *testing.T, resource string) {
	t.Helper()
	out, err := exec.CommandContext(
		t.Context(),
		"go",
		"list",
		"-m",
		"-f",
		"{{.Dir}}",
		"github.com/gardener/gardener",
	).Output()
	if err != nil {
		t.Fatalf("find Gardener's module: %v", err)
	}

	name := "10-crd-extensions.gardener.cloud_" + resource + ".yaml"
	text, err := os.ReadFile(filepath.Join(
		strings.TrimSpace(string(out)),
		"example/seed-crds",
		name,
	))
	if err != nil {
		t.Fatal(err)
	}

	s.create(t, string(text))
}

// create makes the object of a manifest. Its kind may have been made just
// before.
func (s seed) create(t *testing.T, manifest string) {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	s.await(t, "create "+object.GetKind()+" "+object.GetName(), func() error {
		err := s.client.Create(t.Context(), &object)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// await calls do until it succeeds.
func (s seed) await(t *testing.T, what string, do func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	for {
		err := do()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// answered waits until osc is answered to its last generation, in that state.
func (s seed) answered(
	t *testing.T,
	osc *extensionsv1alpha1.OperatingSystemConfig,
	state gardencorev1beta1.LastOperationState,
) {
	t.Helper()
	s.await(t, "the answer to "+osc.Name, func() error {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(osc), osc); err != nil {
			return err
		}
		last := osc.Status.LastOperation
		if last == nil || last.State != state ||
			osc.Status.ObservedGeneration != osc.Generation ||
			osc.Annotations["gardener.cloud/operation"] != "" {
			return fmt.Errorf("status %+v of generation %d, last operation %+v",
				osc.Status, osc.Generation, last)
		}
		return nil
	})
}

// get returns the answer to a GET of a server without encryption.
func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s %s, %v", url, answer.Status, text, err)
	}
	return string(text)
}

// asked is osc as gardenlet writes it: it marks what is to be reconciled.
func asked(
	osc *extensionsv1alpha1.OperatingSystemConfig,
	name string,
) *extensionsv1alpha1.OperatingSystemConfig {
	osc.Name = name
	osc.Annotations = map[string]string{"gardener.cloud/operation": "reconcile"}
	return osc
}

func TestInASeed(t *testing.T) {
	s := startSeed(t)

	other := asked(provision(t, pool{}), "other")
	other.Spec.Type = "gardenlinux"
	first := asked(provision(t, pool{}), "pool-init")
	joined := asked(reconcile(t, &extensionsv1alpha1.InPlaceUpdates{
		OperatingSystemVersion: "1.2.0",
		KubeletVersion:         "1.36.3",
	}), "pool-original")
	wrong := asked(provision(t, pool{}), "wrong")
	wrong.Spec.Files = wrong.Spec.Files[1:]
	for _, osc := range []*extensionsv1alpha1.OperatingSystemConfig{other, first, joined, wrong} {
		if err := s.client.Create(t.Context(), osc); err != nil {
			t.Fatal(err)
		}
	}

	s.answered(t, first, gardencorev1beta1.LastOperationStateSucceeded)
	if err := health.CheckExtensionObject(first); err != nil {
		t.Errorf("what Gardener says of the answer: %v", err)
	}
	s.checkUserData(t, first)

	s.answered(t, joined, gardencorev1beta1.LastOperationStateSucceeded)
	want := extensionsv1alpha1.OperatingSystemConfigStatus{
		DefaultStatus: joined.Status.DefaultStatus,
		InPlaceUpdates: &extensionsv1alpha1.InPlaceUpdatesStatus{OSUpdate: &extensionsv1alpha1.OSUpdate{
			Command: "loam",
			Args:    []string{"upgrade", "--to", "1.2.0"},
		}},
	}
	if diff := cmp.Diff(want, joined.Status); diff != "" {
		t.Errorf("status of purpose reconcile (-want +got):\n%s", diff)
	}

	s.answered(t, wrong, gardencorev1beta1.LastOperationStateError)
	if got := wrong.Status.LastError.Description; !strings.Contains(got, "spec.files: no /var/lib/gardener-node-agent/cluster-ca.crt") {
		t.Errorf("error %q", got)
	}

	// A change of the pool changes the Secret.
	patch := client.MergeFrom(first.DeepCopy())
	first.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"loam.dev/v1alpha1","kind":"Machine","hostnameFrom":"dhcp"}`)}
	asked(first, first.Name)
	if err := s.client.Patch(t.Context(), first, patch); err != nil {
		t.Fatal(err)
	}
	s.answered(t, first, gardencorev1beta1.LastOperationStateSucceeded)
	s.checkUserData(t, first)

	// Deleted, it is gone.
	if err := s.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	s.await(t, "deletion", func() error {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(first), first)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %v", first.Name, err)
	})

	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil ||
		other.Status.LastOperation != nil || len(other.Finalizers) > 0 {
		t.Errorf("the extension answers for another type: %+v, %v", other.Status, err)
	}
	s.checkOperation(t)
	s.checkForeignSecrets(t, s.extension)
	s.await(t, "renewals of both Leases", func() error {
		const group = "coordination.k8s.io"
		if !s.requests.has(access{group, "leases", "gardener-extension-heartbeat", "patch"}) ||
			!s.requests.has(access{group, "leases", "os-loam-leader-election", "update"}) {
			return errors.New("not renewed")
		}
		return nil
	})
	s.requests.check(t)
}

// checkUserData compares the Secret that the status names with what userData
// says.
func (s seed) checkUserData(t *testing.T, osc *extensionsv1alpha1.OperatingSystemConfig) {
	t.Helper()
	if osc.Status.CloudConfig == nil {
		t.Fatalf("status.cloudConfig of %s: none", osc.Name)
	}
	ref := osc.Status.CloudConfig.SecretRef
	var secret corev1.Secret
	if err := s.client.Get(t.Context(), client.ObjectKey{
		Namespace: ref.Namespace,
		Name:      ref.Name,
	}, &secret); err != nil {
		t.Fatal(err)
	}

	want, err := userData(osc)
	if err != nil {
		t.Fatal(err)
	}

	diff := cmp.Diff(
		string(want), string(secret.Data[extensionsv1alpha1.OperatingSystemConfigSecretDataKey]),
	)
	if diff != "" {
		t.Errorf("user data in Secret %s (-want +got):\n%s", ref.Name, diff)
	}
	if owners := secret.OwnerReferences; ref.Namespace != osc.Namespace || len(owners) != 1 ||
		owners[0].UID != osc.UID {
		t.Errorf("Secret %s of %s belongs to %+v", ref.Name, ref.Namespace, owners)
	}
}

// checkOperation looks at what says that the controller is well.
func (s seed) checkOperation(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		get(t, "http://"+s.health+path)
	}

	if text := get(t, "http://"+s.metrics+"/metrics"); !strings.Contains(text, `controller_runtime_reconcile_total{controller="operatingsystemconfig",result="success"}`) {
		t.Error("no metrics of the controller")
	}

	for _, name := range []string{"os-loam-leader-election", "gardener-extension-heartbeat"} {
		if err := s.client.Get(t.Context(), client.ObjectKey{
			Namespace: extensionNamespace,
			Name:      name,
		}, &coordinationv1.Lease{}); err != nil {
			t.Error(err)
		}
	}
}
