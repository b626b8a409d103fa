package machine

import (
	"errors"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/volume"
)

// The only version and kind of document decoded here. Released versions are
// frozen.
const (
	APIVersion = "loam.dev/v1alpha1"
	Kind       = "Machine"
)

// Sources of a host name that Hostname does not give: a DHCP server, or the
// serial number of the machine and, without one, a MAC address.
const (
	FromDHCP   = "dhcp"
	FromSerial = "serial"
)

// Machine is the content of machine.yaml. All fields but the first two are
// optional.
type Machine struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Hostname is a DNS name in lower case (RFC 1123); "" leaves the image's.
	Hostname string `json:"hostname"`

	// HostnameFrom is the source of the name of a node without Hostname:
	// FromDHCP or FromSerial; "" for none.
	HostnameFrom string `json:"hostnameFrom"`

	// Network is configured before all that needs it; the zero Config is the
	// image's own.
	Network network.Config `json:"network"`

	// Source says where the configuration comes from; the zero Source means
	// from nowhere.
	Source Source `json:"source"`

	// Files are placed on a machine that has not joined its cluster yet, for
	// Source.NodeAgent.
	Files []InitialFile `json:"files"`

	// Contents says where the node finds the content that its configuration
	// refers to; the zero Contents means nowhere.
	Contents Contents `json:"contents"`

	// Upgrade says where releases of the system come from; the zero Upgrade
	// means from nowhere.
	Upgrade Upgrade `json:"upgrade"`

	// DataVolume claims the disk for the kubelet's data. It goes before a size
	// in the configuration; the zero DataVolume leaves the choice to that.
	DataVolume DataVolume `json:"dataVolume"`

	// Install claims the disk on which a node that was started over the
	// network, or from a USB installer, installs the system; nil for none. A
	// node that runs from its disk ignores it.
	Install *Install `json:"install"`

	// State claims the disk for the state of a node that runs from memory; nil
	// leaves the state in memory.
	State *State `json:"state"`

	// DebugShell lists terminals with a root shell without a password, without
	// /dev/, such as ttyS1.
	DebugShell []string `json:"debugShell"`
}

// Source has at most one field set.
type Source struct {
	File       *File       `json:"file"`
	ESP        *ESP        `json:"esp"`
	Credential *Credential `json:"credential"`
	Cluster    *Cluster    `json:"cluster"`
	NodeAgent  *NodeAgent  `json:"nodeAgent"`
}

// NodeAgent is a cluster as Gardener describes it to its own node agent:
// Directory has config-<version>.yaml, machine-name, zone and
// credentials/bootstrap-token. It is absolute, [NodeAgentDirectory] if empty.
type NodeAgent struct {
	Directory string `json:"directory"`
}

// File is a file of the node, watched for changes. Path is absolute.
type File struct {
	Path string `json:"path"`
}

// ESP is a file of the EFI system partition. Path begins with / at its root.
type ESP struct {
	Path string `json:"path"`
}

// Credential is a systemd credential, from firmware or hypervisor. Name begins
// with "loam.", because the agent is given no others.
type Credential struct {
	Name string `json:"name"`
}

// Cluster is a Kubernetes cluster that the node joins, and whose Secret has its
// configuration.
type Cluster struct {
	// Server is the URL of the API server. CA has the certificates that verify
	// it, as PEM.
	Server string `json:"server"`
	CA     string `json:"ca"`

	// Secret is the name of a Secret in namespace kube-system.
	Secret string `json:"secret"`

	// BootstrapToken is <id>.<secret>, used while the node has no certificate.
	BootstrapToken string `json:"bootstrapToken"`

	// Machine is the name in the node's certificate; "" is the host name.
	Machine string `json:"machine"`

	// Zone and KubernetesVersion become labels of the Node; "" for none.
	Zone              string `json:"zone"`
	KubernetesVersion string `json:"kubernetesVersion"`

	// Tokens are stored in files, as their Secrets have them.
	Tokens []Token `json:"tokens"`
}

// Token is a Secret in namespace kube-system whose key "token" is stored in the
// file Path, which is absolute.
type Token struct {
	Secret string `json:"secret"`
	Path   string `json:"path"`
}

// Upgrade says where a node's releases come from, and how it upgrades.
type Upgrade struct {
	// Repository is a directory, or an http(s) or oci URL. Root is the text of
	// the root.json that has signed it.
	Repository string `json:"repository"`
	Root       string `json:"root"`

	// Version is the release for the node to run; "" leaves that to the cluster
	// or the operator.
	Version string `json:"version"`

	// Pace is the time between two upgrades that are not urgent. Trial is how
	// long a new system may take to be as healthy as the old one. Both are Go
	// durations, an hour and ten minutes if empty.
	Pace  string `json:"pace"`
	Trial string `json:"trial"`

	// Mirrors are asked for content before Repository: directories and URLs of
	// copies of it, and of nodes that share what they run. They need not be
	// trusted. Share is the address at which this node shares, such as
	// "192.0.2.1:2752"; "" for none.
	Mirrors []string `json:"mirrors"`
	Share   string   `json:"share"`

	// Window is the maintenance window in which the machine may restart to try
	// a system, in UTC, such as "Sat,Sun 22:00-04:00"; "" is always.
	Window string `json:"window"`
}

// DataVolume is a claim to a disk for the kubelet's data, with its file system.
type DataVolume struct {
	Disk
	// FileSystem is ext4 or xfs; "" is ext4.
	FileSystem string `json:"fileSystem"`
}

// Install is a claim to a disk for the system. Wipe repeats the serial number
// of that disk if its content may be overwritten.
type Install struct {
	Disk Disk   `json:"disk"`
	Wipe string `json:"wipe"`
}

// State is a claim to a whole disk for /var.
type State struct {
	Disk Disk `json:"disk"`
}

// Disk is a volume.Claim: a disk must match all fields that are set.
type Disk struct {
	// MinSize and MaxSize are as volume.ParseSize reads them, such as "100Gi",
	// both inclusive.
	MinSize string `json:"minSize"`
	MaxSize string `json:"maxSize"`
	Serial  string `json:"serial"`
	Model   string `json:"model"`

	// Path is a name in /dev/disk/by-path.
	Path string `json:"path"`

	// OnlyEmpty means the only empty disk among several.
	OnlyEmpty bool `json:"onlyEmpty"`
}

// Claim returns the claim, if d was checked.
func (d Disk) Claim() volume.Claim {
	least, _ := volume.ParseSize(d.MinSize)
	most, _ := volume.ParseSize(d.MaxSize)
	return volume.Claim{
		MinSize:   least,
		MaxSize:   most,
		Serial:    d.Serial,
		Model:     d.Model,
		Path:      d.Path,
		OnlyEmpty: d.OnlyEmpty,
	}
}

// Contents has at most one field set.
type Contents struct {
	Directory *Directory `json:"directory"`
}

// Directory is a directory of the node: see content.Directory. Path is
// absolute.
type Directory struct {
	Path string `json:"path"`
}

// Decode reads and checks a machine.yaml. Errors are of type document.Errors,
// have everything that is wrong, and name the document as given.
func Decode(name string, text []byte) (Machine, error) {
	var m Machine
	origin, err := document.DecodeWithOrigin(name, text, &m)
	if err != nil && (m.APIVersion == "" || m.Kind == "") {
		return m, err
	}

	// In another kind of document every field would be unknown.
	report := document.NewReport(origin)
	report.Header(m.APIVersion, m.Kind, APIVersion, Kind)
	if headerErr := report.Err(); headerErr != nil {
		return m, headerErr
	}

	wrong, _ := errors.AsType[document.Errors](err)
	checkEmpty(report, m, wrong)
	check(report, m)

	return m, document.MergeChecked(err, report.Err())
}
