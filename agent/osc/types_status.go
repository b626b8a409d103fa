package osc

// Status is what extensions of the cluster add to Spec, and what its
// controllers record for each other. A node reads only ExtensionUnits,
// ExtensionFiles and InPlaceUpdates.
type Status struct {
	ExtensionUnits []Unit         `json:"extensionUnits"`
	ExtensionFiles []File         `json:"extensionFiles"`
	InPlaceUpdates *InPlaceStatus `json:"inPlaceUpdates"`

	CloudConfig        any    `json:"cloudConfig"`
	Conditions         any    `json:"conditions"`
	LastError          any    `json:"lastError"`
	LastOperation      any    `json:"lastOperation"`
	ObservedGeneration *int64 `json:"observedGeneration"`
	ProviderStatus     any    `json:"providerStatus"`
	Resources          any    `json:"resources"`
	State              any    `json:"state"`
}

// InPlaceStatus describes how a node is updated in place.
type InPlaceStatus struct {
	OSUpdate *OSUpdate `json:"osUpdate"`
}

// OSUpdate is the command that updates the operating system.
type OSUpdate struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}
