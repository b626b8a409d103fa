package osc

// CRIConfig configures the container runtime, whose name must be "containerd".
type CRIConfig struct {
	Name string `json:"name"`
	// CgroupDriver is "cgroupfs" or "systemd".
	CgroupDriver *string     `json:"cgroupDriver"`
	Containerd   *Containerd `json:"containerd"`
}

// Containerd configures containerd.
type Containerd struct {
	SandboxImage string     `json:"sandboxImage"`
	Registries   []Registry `json:"registries"`
	Plugins      []Plugin   `json:"plugins"`
}

// Registry lists the hosts from which images of the registry Upstream
// (HOST[:PORT], or "_default") are pulled.
type Registry struct {
	Upstream       string         `json:"upstream"`
	Server         *string        `json:"server"`
	Hosts          []RegistryHost `json:"hosts"`
	ReadinessProbe *bool          `json:"readinessProbe"`
}

// RegistryHost is one mirror. Capabilities are pull, resolve and push.
type RegistryHost struct {
	URL          string   `json:"url"`
	Capabilities []string `json:"capabilities"`
	CACerts      []string `json:"caCerts"`
	OverridePath *bool    `json:"overridePath"`
}

// Plugin changes the subtree Path of containerd's configuration. Op is "add"
// (the default) or "remove"; Values is any JSON.
type Plugin struct {
	Op     *string  `json:"op"`
	Path   []string `json:"path"`
	Values any      `json:"values"`
}
