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
	// APIVersion is extensions.gardener.cloud/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is OperatingSystemConfig.
	Kind string `json:"kind"`
	// Metadata is the metadata of the object, which the node does not read.
	Metadata map[string]any `json:"metadata"`
	Spec     Spec           `json:"spec"`
	Status   Status         `json:"status"`

	// origin gives Validate the lines of the fields.
	origin document.Origin
}

// Spec is what the cluster asks for.
type Spec struct {
	// Type is for the cluster's own controllers, without effect on a node.
	Type string `json:"type"`
	// Class is for those, too, to choose among several.
	Class *string `json:"class"`
	// ProviderConfig is for the controller of the type, without effect on a node.
	ProviderConfig any `json:"providerConfig"`
	// Purpose is "provision" or "reconcile", without effect on a node.
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
	// Name is its name, such as kubelet.service.
	Name string `json:"name"`
	// Command is start, restart or stop; nil means start.
	Command *string `json:"command"`
	// Enable defaults to true.
	Enable *bool `json:"enable"`
	// Content is the unit file; nil keeps the image's.
	Content *string  `json:"content"`
	DropIns []DropIn `json:"dropIns"`
	// FilePaths are files whose change restarts the unit.
	FilePaths []string `json:"filePaths"`
}

// DropIn is a file in the directory UNIT.d.
type DropIn struct {
	// Name is the name of the file.
	Name string `json:"name"`
	// Content is its text.
	Content string `json:"content"`
}

// File is a regular file, owned by root.
type File struct {
	// Path is absolute.
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

// Inline is content in the document.
type Inline struct {
	// Encoding is "" or "b64" (RFC 4648, section 4).
	Encoding string `json:"encoding"`
	// Data is the content in that encoding.
	Data *string `json:"data"`
}

// SecretRef is content in a Secret of the same namespace.
type SecretRef struct {
	// Name is the name of the Secret.
	Name string `json:"name"`
	// DataKey is the key in its data.
	DataKey string `json:"dataKey"`
}

// ImageRef is content in a file of a container image.
type ImageRef struct {
	// Image is the name of the image, with a tag or a digest.
	Image string `json:"image"`
	// FilePathInImage is the path of the file in it.
	FilePathInImage string `json:"filePathInImage"`
}

// InPlaceUpdate is what a node is updated to without replacing the machine.
type InPlaceUpdate struct {
	// OperatingSystemVersion is an IMAGE_VERSION.
	OperatingSystemVersion string `json:"operatingSystemVersion"`
	// Kubelet is a version such as 1.35.0.
	Kubelet             string               `json:"kubelet"`
	CredentialsRotation *CredentialsRotation `json:"credentialsRotation"`
}

// CredentialsRotation records when the rotation of each credential began.
type CredentialsRotation struct {
	CertificateAuthorities *Rotation `json:"certificateAuthorities"`
	ServiceAccountKey      *Rotation `json:"serviceAccountKey"`
}

// Rotation is the rotation of one credential.
type Rotation struct {
	// LastInitiationTime is when it began last.
	LastInitiationTime *time.Time `json:"lastInitiationTime"`
}
