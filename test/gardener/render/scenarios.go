package main

import (
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/features"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scenario is a landscape to render documents of: the landscape of its base, or
// the defaults, with one change.
type scenario struct {
	name   string
	base   string
	varies string
	change func(*landscape)

	// provision also renders the user data of a machine's first boot, where the
	// change makes a difference to it.
	provision bool
}

var scenarios = []scenario{
	{
		name: "defaults",
		varies: "a Shoot that sets only what has no default: SSH access, " +
			"node logging by the OpenTelemetry collector",
		provision: true,
		change:    func(*landscape) {},
	},
	{
		name:   "logging-off",
		base:   "defaults",
		varies: "the landscape has no node logging",
		change: func(l *landscape) { l.nodeLogging = false },
	},
	{
		name:   "logging-valitail",
		base:   "defaults",
		varies: "the gate OpenTelemetryCollector is off: valitail ships the logs",
		change: func(l *landscape) { l.gate(features.OpenTelemetryCollector, false) },
	},
	{
		name:   "logging-valitail-off",
		base:   "logging-valitail",
		varies: "the landscape has no node logging",
		change: func(l *landscape) { l.nodeLogging = false },
	},
	{
		name:      "ssh-off",
		base:      "defaults",
		varies:    "spec.provider.workersSettings.sshAccess is off",
		provision: true,
		change: func(l *landscape) {
			l.shoot.Spec.Provider.WorkersSettings = &gardencorev1beta1.WorkersSettings{
				SSHAccess: &gardencorev1beta1.SSHAccess{Enabled: false},
			}
		},
	},
	{
		name:   "ssh-off-logging-off",
		base:   "ssh-off",
		varies: "the landscape has no node logging",
		change: func(l *landscape) { l.nodeLogging = false },
	},
	{
		name:   "ssh-key-rotated",
		base:   "defaults",
		varies: "a new SSH key; the old one is still accepted",
		change: func(l *landscape) {
			l.rotation().SSHKeypair = &gardencorev1beta1.ShootSSHKeypairRotation{
				LastInitiationTime: at(1),
			}
		},
	},
	{
		name:   "ssh-key-rotated-again",
		base:   "ssh-key-rotated",
		varies: "one more new SSH key",
		change: func(l *landscape) {
			l.rotation().SSHKeypair = &gardencorev1beta1.ShootSSHKeypairRotation{
				LastInitiationTime: at(2),
			}
		},
	},
	{
		name:   "kubelet-patch",
		base:   "defaults",
		varies: "a later patch of Kubernetes",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.36.4" },
	},
	{
		name:      "kubelet-minor",
		base:      "defaults",
		varies:    "the minor of Kubernetes before, which makes a pool of its own name",
		provision: true,
		change:    func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.35.6" },
	},
	{
		name:   "kubelet-minor-patch",
		base:   "kubelet-minor",
		varies: "a later patch of Kubernetes",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.35.7" },
	},
	{
		name:   "kubelet-minor-oldest",
		base:   "kubelet-minor",
		varies: "an older minor of Kubernetes",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.33.9" },
	},
	{
		name: "kubelet-config",
		base: "defaults",
		varies: "many settings of the kubelet: eviction, reserved resources, garbage collection, " +
			"pulls, CPU manager",
		change: func(l *landscape) {
			kubelet := l.kubelet()
			kubelet.MaxPods = new(int32(250))
			kubelet.PodPIDsLimit = new(int64(1000))
			kubelet.CPUManagerPolicy = new("static")
			kubelet.ProtectKernelDefaults = new(true)
			kubelet.SerializeImagePulls = new(false)
			kubelet.MaxParallelImagePulls = new(int32(5))
			kubelet.RegistryPullQPS = new(int32(10))
			kubelet.RegistryBurst = new(int32(20))
			kubelet.SeccompDefault = new(true)
			kubelet.ContainerLogMaxSize = new(resource.MustParse("50Mi"))
			kubelet.ContainerLogMaxFiles = new(int32(10))
			kubelet.StreamingConnectionIdleTimeout = &metav1.Duration{Duration: 5 * time.Minute}
			kubelet.KubeReserved = &gardencorev1beta1.KubeletConfigReserved{
				CPU:              new(resource.MustParse("100m")),
				Memory:           new(resource.MustParse("1Gi")),
				EphemeralStorage: new(resource.MustParse("2Gi")),
				PID:              new(resource.MustParse("20k")),
			}

			kubelet.EvictionHard = &gardencorev1beta1.KubeletConfigEviction{
				MemoryAvailable:   new("200Mi"),
				ImageFSAvailable:  new("10%"),
				ImageFSInodesFree: new("10%"),
				NodeFSAvailable:   new("10%"),
				NodeFSInodesFree:  new("10%"),
			}
		},
	},
	{
		name:   "kubelet-config-reserved",
		base:   "kubelet-config",
		varies: "more memory reserved for the kubelet",
		change: func(l *landscape) {
			l.kubelet().KubeReserved.Memory = new(resource.MustParse("2Gi"))
		},
	},
	{
		name:   "kubelet-swap",
		base:   "defaults",
		varies: "the kubelet runs with swap, limited",
		change: func(l *landscape) {
			l.kubelet().FailSwapOn = new(false)
			l.kubelet().FeatureGates = map[string]bool{"NodeSwap": true}
		},
	},
	{
		name:   "pool-settings",
		base:   "defaults",
		varies: "labels, taints and annotations of the pool's nodes",
		change: func(l *landscape) {
			l.pool().Labels = map[string]string{"site": "berlin"}
			l.pool().Annotations = map[string]string{"example.com/rack": "7"}
			l.pool().Taints = []corev1.Taint{
				{Key: "edge", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			}
		},
	},
	{
		name:   "sysctls",
		base:   "defaults",
		varies: "sysctls of the pool",
		change: func(l *landscape) {
			l.pool().Sysctls = map[string]string{
				"net.ipv4.tcp_keepalive_time": "600",
				"vm.max_map_count":            "262144",
			}
		},
	},
	{
		name:   "sysctls-changed",
		base:   "sysctls",
		varies: "another value of a sysctl",
		change: func(l *landscape) { l.pool().Sysctls["vm.max_map_count"] = "524288" },
	},
	{
		name:   "ca-bundle",
		base:   "defaults",
		varies: "the pool trusts one more authority",
		change: func(l *landscape) { l.poolAuthority = "site" },
	},
	{
		name:   "ca-bundle-changed",
		base:   "ca-bundle",
		varies: "another authority",
		change: func(l *landscape) { l.poolAuthority = "other site" },
	},
	{
		name:   "ca-bundle-profile",
		base:   "defaults",
		varies: "all Shoots of the CloudProfile trust one more authority",
		change: func(l *landscape) { l.profileAuthority = "provider" },
	},
	{
		name:      "registry-ca",
		base:      "defaults",
		varies:    "the landscape's own registry has an authority of its own",
		provision: true,
		change:    func(l *landscape) { l.registryAuthority = "registry" },
	},
	{
		name: "registries",
		base: "defaults",
		varies: "mirrors and caches of registries, as the registry extensions write them, " +
			"with readiness probes and _default",
		change: func(l *landscape) {
			l.webhook(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Spec.CRIConfig.Containerd.Registries = registries("http://10.4.7.1:5000")
			})
		},
	},
	{
		name:   "registries-changed",
		base:   "registries",
		varies: "another address of the cache",
		change: func(l *landscape) {
			l.webhook(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Spec.CRIConfig.Containerd.Registries = registries("http://10.4.7.2:5000")
			})
		},
	},
	{
		name:   "registries-less",
		base:   "registries",
		varies: "one registry less",
		change: func(l *landscape) {
			l.webhook(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				containerd := osc.Spec.CRIConfig.Containerd
				containerd.Registries = containerd.Registries[1:]
			})
		},
	},
	{
		name:   "runtime-gvisor",
		base:   "defaults",
		varies: "a container runtime, as its extension writes it: a plugin of containerd",
		change: func(l *landscape) {
			l.webhook(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Spec.CRIConfig.Containerd.Plugins = []extensionsv1alpha1.PluginConfig{{
					Path: []string{
						"io.containerd.grpc.v1.cri", "containerd", "runtimes", "runsc",
					},
					Values: &apiextensionsv1.JSON{
						Raw: []byte(`{"runtime_type": "io.containerd.runsc.v1"}`),
					},
				}}
			})
		},
	},
	{
		name:   "plugin-without-values",
		base:   "defaults",
		varies: "a plugin to add that has no values, which Gardener's validation accepts",
		change: func(l *landscape) {
			l.webhook(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Spec.CRIConfig.Containerd.Plugins = []extensionsv1alpha1.PluginConfig{{
					Op:   new(extensionsv1alpha1.AddPluginPathOperation),
					Path: []string{"io.containerd.internal.v1.opt"},
				}}
			})
		},
	},
	{
		name:      "data-volume",
		base:      "defaults",
		varies:    "the kubelet's directory is on a volume of its own: var-lib-kubelet.mount",
		provision: true,
		change: func(l *landscape) {
			l.pool().Volume = &gardencorev1beta1.Volume{VolumeSize: "20Gi"}
			l.pool().DataVolumes = []gardencorev1beta1.DataVolume{
				{Name: "kubelet", VolumeSize: "25Gi"},
			}
			l.pool().KubeletDataVolumeName = new("kubelet")
		},
	},
	{
		name:   "data-volume-patch",
		base:   "data-volume",
		varies: "a later patch of Kubernetes",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.36.4" },
	},
	{
		name:   "ipv6",
		base:   "defaults",
		varies: "an IPv6 Shoot",
		change: func(l *landscape) {
			l.shoot.Spec.Networking.IPFamilies = []gardencorev1beta1.IPFamily{
				gardencorev1beta1.IPFamilyIPv6,
			}
			l.shoot.Spec.Networking.Nodes = new("2001:db8:3::/48")
			l.shoot.Spec.Networking.Pods = new("2001:db8:2::/48")
			l.shoot.Spec.Networking.Services = new("2001:db8:1::/108")
		},
	},
	{
		name:   "dual-stack",
		base:   "defaults",
		varies: "a Shoot with both IP families",
		change: func(l *landscape) {
			l.shoot.Spec.Networking.IPFamilies = []gardencorev1beta1.IPFamily{
				gardencorev1beta1.IPFamilyIPv4,
				gardencorev1beta1.IPFamilyIPv6,
			}
			l.shoot.Status.Networking = &gardencorev1beta1.NetworkingStatus{
				Pods:     []string{"100.64.0.0/12", "2001:db8:2::/48"},
				Services: []string{"100.96.0.0/13", "2001:db8:1::/108"},
				Nodes:    []string{"10.250.0.0/16", "2001:db8:3::/48"},
			}
		},
	},
	{
		name:   "node-local-dns",
		base:   "defaults",
		varies: "a DNS cache on each node",
		change: func(l *landscape) {
			l.shoot.Spec.SystemComponents = &gardencorev1beta1.SystemComponents{
				NodeLocalDNS: &gardencorev1beta1.NodeLocalDNS{Enabled: true},
			}
		},
	},
	{
		name: "extension-units",
		base: "defaults",
		varies: "the operating system's extension adds units and files, " +
			"one with a drop-in name of the document",
		change: func(l *landscape) {
			l.webhook(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Status.ExtensionUnits = []extensionsv1alpha1.Unit{
					{
						Name: "containerd.service",
						DropIns: []extensionsv1alpha1.DropIn{
							{Name: "30-site.conf", Content: "[Service]\nEnvironment=SITE=berlin\n"},
						},
					},
					{
						Name:    "site.service",
						Enable:  new(true),
						Command: new(extensionsv1alpha1.CommandStart),
						Content: new("[Service]\nType=oneshot\nRemainAfterExit=yes\n" +
							"ExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"),

						FilePaths: []string{"/etc/site.conf"},
					},
				}

				osc.Status.ExtensionFiles = []extensionsv1alpha1.File{{
					Path:        "/etc/site.conf",
					Permissions: new(uint32(0o644)),
					Content: extensionsv1alpha1.FileContent{
						Inline: &extensionsv1alpha1.FileContentInline{Data: "region=eu\n"},
					},
				}}
			})
		},
	},
	{
		name:      "in-place",
		base:      "defaults",
		varies:    "the pool is updated in place",
		provision: true,
		change: func(l *landscape) {
			l.pool().UpdateStrategy = new(gardencorev1beta1.AutoInPlaceUpdate)
			l.extension(func(osc *extensionsv1alpha1.OperatingSystemConfig) {
				osc.Status.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdatesStatus{
					OSUpdate: &extensionsv1alpha1.OSUpdate{
						Command: "loam",
						Args: []string{
							"upgrade", "--to", osc.Spec.InPlaceUpdates.OperatingSystemVersion,
						},
					},
				}
			})
		},
	},
	{
		name:   "in-place-os",
		base:   "in-place",
		varies: "a later version of the operating system",
		change: func(l *landscape) { l.pool().Machine.Image.Version = new("0.1.1") },
	},
	{
		name:   "in-place-patch",
		base:   "in-place",
		varies: "a later patch of Kubernetes",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.36.4" },
	},
	{
		name:   "in-place-minor-before",
		base:   "in-place",
		varies: "the minor of Kubernetes before",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.35.6" },
	},
	{
		name:   "in-place-config",
		base:   "in-place",
		varies: "a setting of the kubelet for which the node is drained",
		change: func(l *landscape) { l.kubelet().CPUManagerPolicy = new("static") },
	},
	{
		name:   "in-place-ca-rotation",
		base:   "in-place",
		varies: "the authorities are rotated: new ones, and the old are still trusted",
		change: func(l *landscape) {
			l.rotation().CertificateAuthorities = &gardencorev1beta1.CARotation{
				Phase:              gardencorev1beta1.RotationPreparing,
				LastInitiationTime: at(1),
			}
		},
	},
	{
		name:   "in-place-key-rotation",
		base:   "in-place",
		varies: "the key of service accounts is rotated",
		change: func(l *landscape) {
			l.rotation().ServiceAccountKey = &gardencorev1beta1.ServiceAccountKeyRotation{
				Phase:              gardencorev1beta1.RotationPreparing,
				LastInitiationTime: at(1),
			}
		},
	},
	{
		name:   "in-place-rotation",
		base:   "in-place-ca-rotation",
		varies: "the key of service accounts is rotated as well",
		change: func(l *landscape) {
			l.rotation().ServiceAccountKey = &gardencorev1beta1.ServiceAccountKeyRotation{
				Phase:              gardencorev1beta1.RotationPreparing,
				LastInitiationTime: at(1),
			}
		},
	},
	{
		name: "control-plane",
		varies: "a node of a self-hosted Shoot's control plane, as gardenadm sets it up: " +
			"etcd and Kubernetes in static pods",
		change: func(l *landscape) {
			l.selfHosted = true
			l.nodeLogging = false
			l.shoot.Namespace = "garden"
			l.shoot.Spec.CredentialsBindingName = nil
			l.pool().Name = "control-plane"
			l.pool().ControlPlane = &gardencorev1beta1.WorkerControlPlane{}
			l.pool().Maximum = 1
		},
	},
	{
		name: "control-plane-reordered",
		base: "control-plane",
		varies: "nothing: Gardener lists the files of a static pod in an order that is " +
			"another each time",
		change: func(l *landscape) { l.reordered = true },
	},
	{
		name:   "control-plane-patch",
		base:   "control-plane",
		varies: "a later patch of Kubernetes",
		change: func(l *landscape) { l.shoot.Spec.Kubernetes.Version = "1.36.4" },
	},
	{
		name: "control-plane-tokens",
		base: "control-plane",
		varies: "it is connected to a garden: the node agent writes the tokens of static " +
			"pods, which the document had",
		change: func(l *landscape) { l.connected = true },
	},
	{
		name:   "control-plane-apiserver",
		base:   "control-plane",
		varies: "a setting of kube-apiserver: one static pod",
		change: func(l *landscape) {
			l.shoot.Spec.Kubernetes.KubeAPIServer = &gardencorev1beta1.KubeAPIServerConfig{
				EventTTL: &metav1.Duration{Duration: 2 * time.Hour},
			}
		},
	},
	{
		name:   "control-plane-scheduler",
		base:   "control-plane",
		varies: "a setting of kube-scheduler, in a file of its static pod",
		change: func(l *landscape) {
			l.shoot.Spec.Kubernetes.KubeScheduler = &gardencorev1beta1.KubeSchedulerConfig{
				Profile: new(gardencorev1beta1.SchedulingProfileBinPacking),
			}
		},
	},
}

// landscape returns a new landscape of s, with the changes of its bases, oldest
// first, and its own.
func (s scenario) landscape() (*landscape, error) {
	l := newLandscape()
	if s.base != "" {
		base, err := find(s.base)
		if err != nil {
			return nil, fmt.Errorf("base of %s: %w", s.name, err)
		}
		l, err = base.landscape()
		if err != nil {
			return nil, err
		}
	}

	l.name = s.name
	s.change(l)
	return l, nil
}

func find(name string) (scenario, error) {
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("no scenario %q", name)
}

// at is the n-th day after the certificates are issued.
func at(n int) *metav1.Time { return &metav1.Time{Time: issued.AddDate(0, 0, n)} }

// registries are a cache, a mirror and what holds for all other registries.
func registries(cache string) []extensionsv1alpha1.RegistryConfig {
	pull := []extensionsv1alpha1.RegistryCapability{
		extensionsv1alpha1.PullCapability,
		extensionsv1alpha1.ResolveCapability,
	}

	return []extensionsv1alpha1.RegistryConfig{
		{
			Upstream:       "docker.io",
			Server:         new("https://registry-1.docker.io"),
			ReadinessProbe: new(true),
			Hosts:          []extensionsv1alpha1.RegistryHost{{URL: cache, Capabilities: pull}},
		},
		{
			Upstream: "registry.site.example.com:5000",
			Server:   new("https://registry.site.example.com:5000"),
			Hosts: []extensionsv1alpha1.RegistryHost{{
				URL:          "https://mirror.site.example.com:5000",
				Capabilities: pull,
				CACerts:      []string{"/etc/ssl/certs/site.pem"},
				OverridePath: new(true),
			}},
		},
		{
			Upstream: "_default",
			Hosts: []extensionsv1alpha1.RegistryHost{
				{URL: "https://proxy.site.example.com", Capabilities: pull},
			},
		},
	}
}
