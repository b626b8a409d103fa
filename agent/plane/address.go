package plane

// Addresses and data of etcd for the node itself.
const (
	// EtcdURL is the client URL.
	EtcdURL = etcdURL
	// EtcdMetricsURL has the metrics. It needs no certificate.
	EtcdMetricsURL = etcdMetrics + "/metrics"
	// EtcdDirectory has the data.
	EtcdDirectory = etcdState
)
