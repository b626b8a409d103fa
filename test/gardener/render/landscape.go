package main

import (
	"context"
	"maps"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/gardener/gardener/pkg/features"
	"github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/gardenlet/operation/garden"
	"github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	clocktesting "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// landscape is all that decides what a gardenlet renders for one pool: the
// Shoot as its owner writes it, and what the operator of the landscape sets.
type landscape struct {
	name         string
	shoot        *gardencorev1beta1.Shoot
	cloudProfile *gardencorev1beta1.CloudProfile

	// selfHosted says that the pool runs the Shoot's control plane, with
	// gardenadm as its gardenlet. There is no seed then.
	selfHosted bool

	// connected says that the self-hosted Shoot has a gardenlet by now.
	connected bool

	// reordered lists the files of static pods from last to first.
	reordered bool

	nodeLogging  bool
	featureGates map[string]bool

	// Names of authorities beside the Shoot's: for a pool, for all Shoots of
	// the CloudProfile, and for the landscape's registry.
	poolAuthority     string
	profileAuthority  string
	registryAuthority string

	// webhooks and extensions change the object of a pool, in this order,
	// before the gardenlet writes it into the Secret.
	webhooks   []func(*extensionsv1alpha1.OperatingSystemConfig)
	extensions []func(*extensionsv1alpha1.OperatingSystemConfig)
}

// webhook adds a change of the object's spec, as extensions make it at
// admission.
func (l *landscape) webhook(change func(*extensionsv1alpha1.OperatingSystemConfig)) {
	l.webhooks = append(l.webhooks, change)
}

// extension adds what the operating system's extension writes into the status.
func (l *landscape) extension(change func(*extensionsv1alpha1.OperatingSystemConfig)) {
	l.extensions = append(l.extensions, change)
}

// gate turns one of the gardenlet's feature gates on or off.
func (l *landscape) gate(gate featuregate.Feature, on bool) {
	if l.featureGates == nil {
		l.featureGates = map[string]bool{}
	}
	l.featureGates[string(gate)] = on
}

// kubelet is the Shoot's configuration of kubelets.
func (l *landscape) kubelet() *gardencorev1beta1.KubeletConfig {
	if l.shoot.Spec.Kubernetes.Kubelet == nil {
		l.shoot.Spec.Kubernetes.Kubelet = &gardencorev1beta1.KubeletConfig{}
	}
	return l.shoot.Spec.Kubernetes.Kubelet
}

// rotation is what the Shoot's status says about rotations of credentials.
func (l *landscape) rotation() *gardencorev1beta1.ShootCredentialsRotation {
	if l.shoot.Status.Credentials == nil {
		l.shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{
			Rotation: &gardencorev1beta1.ShootCredentialsRotation{},
		}
	}
	return l.shoot.Status.Credentials.Rotation
}

// pool is the worker pool of the Shoot.
func (l *landscape) pool() *gardencorev1beta1.Worker { return &l.shoot.Spec.Provider.Workers[0] }

// newLandscape returns the defaults: a Shoot whose owner has set only the
// fields without a default, in a landscape with logging.
func newLandscape() *landscape {
	return &landscape{
		shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Name:      "edge",
				Namespace: "garden-loam",
				UID:       "2c0c1a3e-9a2d-4a4d-8a34-3f1e3a1f7a01",
			},
			Spec: gardencorev1beta1.ShootSpec{
				Region:     "earth",
				DNS:        &gardencorev1beta1.DNS{Domain: new("edge.loam.example.com")},
				Kubernetes: gardencorev1beta1.Kubernetes{Version: "1.36.3"},
				Networking: &gardencorev1beta1.Networking{
					Type:     new("calico"),
					Nodes:    new("10.250.0.0/16"),
					Pods:     new("100.64.0.0/12"),
					Services: new("100.96.0.0/13"),
				},
				Provider: gardencorev1beta1.Provider{
					Type: "local",
					Workers: []gardencorev1beta1.Worker{{
						Name:    "worker",
						Minimum: 1,
						Maximum: 3,
						Machine: gardencorev1beta1.Machine{
							Type: "small",
							Image: &gardencorev1beta1.ShootMachineImage{
								Name:    "loam",
								Version: new("0.1.0"),
							},
						},
					}},
				},
				CredentialsBindingName: new("earth"),
			},
			Status: gardencorev1beta1.ShootStatus{
				TechnicalID: "shoot--loam--edge",
				UID:         "2c0c1a3e-9a2d-4a4d-8a34-3f1e3a1f7a01",
			},
		},
		cloudProfile: &gardencorev1beta1.CloudProfile{
			ObjectMeta: metav1.ObjectMeta{Name: "earth"},
		},
		nodeLogging: true,
	}
}

// namespace is where the Shoot's control plane is.
func (l *landscape) namespace() string {
	return v1beta1helper.ControlPlaneNamespaceForShoot(l.shoot)
}

// botanist returns the gardenlet's operation on the landscape, with the given
// Secrets and those that it generates.
func (l *landscape) botanist(
	ctx context.Context, known []corev1.Secret,
) (*botanist.Botanist, error) {
	if err := l.prepare(); err != nil {
		return nil, err
	}

	gardenClient := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
		WithObjects(l.shoot.DeepCopy()).WithStatusSubresource(l.shoot).Build()
	clientSet := l.clientSet(known)

	shoot, err := shootpkg.NewBuilder().
		WithShootObject(l.shoot).
		WithCloudProfileObject(l.cloudProfile).
		WithSeedObject(theSeed).
		WithoutShootCredentials().
		WithProjectName("loam").
		WithInternalDomain(&gardenerutils.Domain{Domain: "internal.example.com"}).
		WithDefaultDomains([]*gardenerutils.Domain{{Domain: "loam.example.com"}}).
		WithServiceAccountIssuerHostname(nil).
		Build(ctx, clientSet, gardenClient)
	if err != nil {
		return nil, err
	}

	shoot.Networks, err = shootpkg.ToNetworks(l.shoot, false)
	if err != nil {
		return nil, err
	}

	seedObject := &seed.Seed{}
	seedObject.SetInfo(theSeed)

	o := &operation.Operation{
		Clock:  clocktesting.NewFakeClock(issued),
		Config: l.config(),
		Garden: &garden.Garden{
			Project: &gardencorev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "loam"}},
		},
		GardenClient:  gardenClient,
		Logger:        logr.Discard(),
		Seed:          seedObject,
		SeedClientSet: clientSet,
		Shoot:         shoot,
	}

	if l.registryAuthority != "" {
		bundle, err := authority(l.registryAuthority)
		if err != nil {
			return nil, err
		}
		if err := trustRegistry(o, bundle); err != nil {
			return nil, err
		}
	}

	seedRandomness(l.name)
	b, err := botanist.New(ctx, o)
	if err != nil {
		return nil, err
	}

	return b, b.InitializeSecretsManagement(ctx)
}

// prepare sets the globals of Gardener's code, and the defaults of the Shoot as
// Gardener's API server does.
func (l *landscape) prepare() error {
	gates := map[string]bool{string(features.OpenTelemetryCollector): true}
	maps.Copy(gates, l.featureGates)
	if err := features.DefaultFeatureGate.SetFromMap(gates); err != nil {
		return err
	}

	if l.poolAuthority != "" {
		bundle, err := authority(l.poolAuthority)
		if err != nil {
			return err
		}
		l.pool().CABundle = &bundle
	}

	if l.profileAuthority != "" {
		bundle, err := authority(l.profileAuthority)
		if err != nil {
			return err
		}
		l.cloudProfile.Spec.CABundle = &bundle
	}

	gardencorev1beta1.SetObjectDefaults_Shoot(l.shoot)
	return nil
}

// clientSet is the seed, or the cluster of a self-hosted Shoot, with the
// Secrets.
func (l *landscape) clientSet(known []corev1.Secret) kubernetes.Interface {
	builder := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme)
	for _, secret := range known {
		secret.ResourceVersion = ""
		builder = builder.WithObjects(secret.DeepCopy())
	}
	c := builder.Build()

	return fakekubernetes.NewClientSetBuilder().
		WithClient(c).
		WithAPIReader(c).
		WithRESTConfig(&rest.Config{}).
		WithVersion(l.shoot.Spec.Kubernetes.Version).
		Build()
}

// config is what the operator tells the gardenlet.
func (l *landscape) config() *gardenletconfigv1alpha1.GardenletConfiguration {
	config := &gardenletconfigv1alpha1.GardenletConfiguration{}
	gardenletconfigv1alpha1.SetObjectDefaults_GardenletConfiguration(config)

	config.Logging = &gardenletconfigv1alpha1.Logging{
		Enabled: new(true),
		Vali:    &gardenletconfigv1alpha1.Vali{Enabled: new(true)},
	}

	if l.nodeLogging {
		config.Logging.ShootNodeLogging = &gardenletconfigv1alpha1.ShootNodeLogging{
			ShootPurposes: []gardencorev1beta1.ShootPurpose{
				gardencorev1beta1.ShootPurposeEvaluation,
			},
		}
	}

	return config
}

// theSeed is the cluster that the Shoot's control plane runs in.
var theSeed = &gardencorev1beta1.Seed{
	ObjectMeta: metav1.ObjectMeta{Name: "earth"},
	Spec: gardencorev1beta1.SeedSpec{
		Ingress: &gardencorev1beta1.Ingress{Domain: "ingress.earth.example.com"},
	},
}
