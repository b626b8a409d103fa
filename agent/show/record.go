package show

// ChangedRecord is a cluster record that was replaced; the agent applies it next.
type ChangedRecord struct {
	// Cluster is the name of the cluster.
	Cluster string `json:"cluster"`
	// Kubernetes is the version in the record before.
	Kubernetes string `json:"kubernetes"`
	// KubernetesNow is the version in the new record.
	KubernetesNow string `json:"kubernetesNow"`
}
