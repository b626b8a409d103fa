package osc

// Status is what extensions of the cluster add to the specification, and what its
// controllers record for each other, which a node does not read.
type Status struct {
	// ExtensionUnits are units that extensions add.
	ExtensionUnits []Unit `json:"extensionUnits"`
	// ExtensionFiles are files that extensions add.
	ExtensionFiles []File         `json:"extensionFiles"`
	InPlaceUpdates *InPlaceStatus `json:"inPlaceUpdates"`

	// CloudConfig names the Secret with the rendered configuration. A node does not
	// read it, nor the following.
	CloudConfig any `json:"cloudConfig"`
	// Conditions are conditions of the object.
	Conditions any `json:"conditions"`
	// LastError is the last error of the controller.
	LastError any `json:"lastError"`
	// LastOperation is what the controller did last.
	LastOperation any `json:"lastOperation"`
	// ObservedGeneration is the generation of the object that the controller has
	// seen.
	ObservedGeneration *int64 `json:"observedGeneration"`
	// ProviderStatus is the controller's own.
	ProviderStatus any `json:"providerStatus"`
	// Resources are objects that the state refers to.
	Resources any `json:"resources"`
	// State is what the controller keeps for itself.
	State any `json:"state"`
}

// InPlaceStatus describes how a node is updated in place.
type InPlaceStatus struct {
	OSUpdate *OSUpdate `json:"osUpdate"`
}

// OSUpdate is the command that updates the operating system.
type OSUpdate struct {
	// Command is the program.
	Command string `json:"command"`
	// Args are its arguments.
	Args []string `json:"args"`
}
