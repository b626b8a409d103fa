package osc

// CRIConfig configures the container runtime.
type CRIConfig struct {
	// Name is the container runtime, which must be "containerd".
	Name string `json:"name"`
	// CgroupDriver is "cgroupfs" or "systemd".
	CgroupDriver *string     `json:"cgroupDriver"`
	Containerd   *Containerd `json:"containerd"`
}

// Containerd configures containerd.
type Containerd struct {
	// SandboxImage is the image of the container that holds the namespaces of a pod.
	SandboxImage string     `json:"sandboxImage"`
	Registries   []Registry `json:"registries"`
	Plugins      []Plugin   `json:"plugins"`
}

// Registry lists the hosts from which images of a registry are pulled.
type Registry struct {
	// Upstream is the registry that images name: HOST[:PORT], or "_default".
	Upstream string `json:"upstream"`
	// Server is the URL that is asked after all hosts.
	Server *string        `json:"server"`
	Hosts  []RegistryHost `json:"hosts"`
	// ReadinessProbe has the registry left out until its hosts answer.
	ReadinessProbe *bool `json:"readinessProbe"`
}

// RegistryHost is one mirror.
type RegistryHost struct {
	// URL is the URL of the mirror.
	URL string `json:"url"`
	// Capabilities are pull, resolve and push.
	Capabilities []string `json:"capabilities"`
	// CACerts are files with certificates that verify it.
	CACerts []string `json:"caCerts"`
	// OverridePath says that the URL has the path of the API, too.
	OverridePath *bool `json:"overridePath"`
}

// Plugin changes containerd's configuration.
type Plugin struct {
	// Op is "add", which is the default, or "remove".
	Op *string `json:"op"`
	// Path is the subtree of containerd's configuration.
	Path []string `json:"path"`
	// Values is what the subtree gets, as any JSON.
	Values any `json:"values"`
}
