package osc

import (
	"time"

	"github.com/loam-os/loam/agent/document"
)

// The version and kind of document decoded here.
const (
	APIVersion = "extensions.gardener.cloud/v1alpha1"
	Kind       = "OperatingSystemConfig"
)

// OperatingSystemConfig is Gardener's description of a node (Gardener API
// reference, extensions.gardener.cloud/v1alpha1).
type OperatingSystemConfig struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       Spec           `json:"spec"`
	Status     Status         `json:"status"`

	// origin gives Validate the lines of the fields.
	origin document.Origin
}

// Spec is what the cluster asks for. Type, Class, ProviderConfig and Purpose
// are for the cluster's own controllers and have no effect on a node.
type Spec struct {
	Type           string         `json:"type"`
	Class          *string        `json:"class"`
	ProviderConfig any            `json:"providerConfig"`
	Purpose        Purpose        `json:"purpose"`
	CRIConfig      *CRIConfig     `json:"criConfig"`
	Units          []Unit         `json:"units"`
	Files          []File         `json:"files"`
	InPlaceUpdates *InPlaceUpdate `json:"inPlaceUpdates"`
}

// Purpose is "provision" for a machine's first boot, "reconcile" afterwards,
// and empty in the Secret that a node reads.
type Purpose string

// Unit is a systemd unit. Units with the same name are merged.
type Unit struct {
	Name string `json:"name"`
	// Command is start, restart or stop; nil means start.
	Command *string `json:"command"`
	// Enable defaults to true.
	Enable *bool `json:"enable"`
	// Content is the unit file; nil keeps the image's.
	Content   *string  `json:"content"`
	DropIns   []DropIn `json:"dropIns"`
	FilePaths []string `json:"filePaths"`
}

// DropIn is the file Name in the directory UNIT.d.
type DropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// File is a regular file, owned by root.
type File struct {
	Path string `json:"path"`

	// Permissions are the mode bits of chmod(2) as a number: 420, 0644 and
	// 0o644 are the same. Nil means 0600.
	Permissions *uint32 `json:"permissions"`

	// HostName restricts the file to the node with this host name.
	HostName *string `json:"hostName"`
	Content  Content `json:"content"`
}

// Content has exactly one of Inline, SecretRef and ImageRef set.
type Content struct {
	Inline    *Inline    `json:"inline"`
	SecretRef *SecretRef `json:"secretRef"`
	ImageRef  *ImageRef  `json:"imageRef"`

	// TransmitUnencoded is for the cloud's user data and has no effect on a
	// node.
	TransmitUnencoded *bool `json:"transmitUnencoded"`
}

// Inline is content in the document. Encoding is "" or "b64" (RFC 4648, section
// 4).
type Inline struct {
	Encoding string  `json:"encoding"`
	Data     *string `json:"data"`
}

// SecretRef is content in a Secret of the same namespace.
type SecretRef struct {
	Name    string `json:"name"`
	DataKey string `json:"dataKey"`
}

// ImageRef is content in a file of a container image.
type ImageRef struct {
	Image           string `json:"image"`
	FilePathInImage string `json:"filePathInImage"`
}

// InPlaceUpdate is what a node is updated to without replacing the machine.
type InPlaceUpdate struct {
	OperatingSystemVersion string               `json:"operatingSystemVersion"`
	Kubelet                string               `json:"kubelet"`
	CredentialsRotation    *CredentialsRotation `json:"credentialsRotation"`
}

// CredentialsRotation records when the rotation of each credential began.
type CredentialsRotation struct {
	CertificateAuthorities *Rotation `json:"certificateAuthorities"`
	ServiceAccountKey      *Rotation `json:"serviceAccountKey"`
}

// Rotation is the rotation of one credential.
type Rotation struct {
	LastInitiationTime *time.Time `json:"lastInitiationTime"`
}
