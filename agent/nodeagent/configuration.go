// Package nodeagent reads the configuration of Gardener's own node agent, a
// NodeAgentConfiguration (docs/api-reference/nodeagent-config.md of Gardener).
// Each node of Gardener has one, in a file config-<version>.yaml. Loam takes
// from it the address of the cluster, and checks all of it as Gardener's own
// agent does.
//
// Package agent/cluster uses its API server, tokens and Kubernetes version.
package nodeagent

import "github.com/loam-os/loam/agent/document"

// The only version and kind that are decoded here.
const (
	APIVersion = "nodeagent.config.gardener.cloud/v1alpha1"
	Kind       = "NodeAgentConfiguration"
)

// Configuration is a NodeAgentConfiguration. Loam does not use all of it; the
// other fields are only checked.
type Configuration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	ClientConnection ClientConnection `json:"clientConnection"`
	LogLevel         string           `json:"logLevel"`
	LogFormat        string           `json:"logFormat"`
	Server           struct {
		HealthProbes *Server `json:"healthProbes"`
		Metrics      *Server `json:"metrics"`
	} `json:"server"`
	Debugging    *Debugging      `json:"debugging"`
	FeatureGates map[string]bool `json:"featureGates"`
	APIServer    APIServer       `json:"apiServer"`
	Bootstrap    Bootstrap       `json:"bootstrap"`
	Controllers  Controllers     `json:"controllers"`
}

// ClientConnection is not used.
type ClientConnection struct {
	Kubeconfig         string `json:"kubeconfig"`
	AcceptContentTypes string `json:"acceptContentTypes"`
	ContentType        string `json:"contentType"`
	// QPS is a number, with or without a fraction.
	QPS   any   `json:"qps"`
	Burst int32 `json:"burst"`
}

// Server is not used: Loam serves its metrics elsewhere.
type Server struct {
	BindAddress string `json:"bindAddress"`
	Port        int    `json:"port"`
}

// Debugging is not used.
type Debugging struct {
	EnableProfiling           bool `json:"enableProfiling"`
	EnableContentionProfiling bool `json:"enableContentionProfiling"`
}

// APIServer is the address of the API server. CABundle is PEM in base64, from
// old versions of Gardener; CAFile is a path on the node.
type APIServer struct {
	Server   string `json:"server"`
	CABundle string `json:"caBundle"`
	CAFile   string `json:"caFile"`
}

// Bootstrap is for a node that joins its cluster. KubeletDataVolumeSize is the
// size of the disk for the kubelet's directory, in bytes, 0 if none.
type Bootstrap struct {
	KubeletDataVolumeSize int64 `json:"kubeletDataVolumeSize"`
}

// Controllers are the tasks of Gardener's node agent. Periods are Go durations;
// Loam watches instead of polling.
type Controllers struct {
	OperatingSystemConfig struct {
		SyncPeriod string `json:"syncPeriod"`
		// SecretName is the name of the Secret with the node's configuration.
		SecretName string `json:"secretName"`
		// KubernetesVersion becomes a label of the Node.
		KubernetesVersion string `json:"kubernetesVersion"`
	} `json:"operatingSystemConfig"`
	Token struct {
		SyncConfigs []TokenSync `json:"syncConfigs"`
		SyncPeriod  string      `json:"syncPeriod"`
	} `json:"token"`
	SystemdUnitCheck struct {
		SyncPeriod     string `json:"syncPeriod"`
		StuckThreshold string `json:"stuckThreshold"`
	} `json:"systemdUnitCheck"`
}

// TokenSync is a Secret of namespace kube-system whose key "token" is synced to
// the file Path.
type TokenSync struct {
	SecretName string `json:"secretName"`
	Path       string `json:"path"`
}

// Decode reads and checks a NodeAgentConfiguration. Errors are of type
// document.Errors and name the document as given. Like Gardener's own agent, it
// accepts unknown fields and similar mistakes; they become warnings.
func Decode(name string, text []byte) (c Configuration, warnings document.Errors, err error) {
	origin, err := document.DecodeWithOrigin(name, text, &c)
	warnings, err = document.Lenient(err)
	report := document.NewReport(origin)
	if err == nil || (c.APIVersion != "" && c.Kind != "") {
		// In another kind of document every field would be unknown.
		report.Header(c.APIVersion, c.Kind, APIVersion, Kind)
		if headerErr := report.Err(); headerErr != nil {
			return c, nil, headerErr
		}
	}

	if err != nil {
		return c, warnings, err
	}

	check(report, c)
	more, err := document.Lenient(report.Err())
	return c, append(warnings, more...), err
}
