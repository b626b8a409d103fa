// Package machine reads machine.yaml: what a node must know before it knows
// anything else, above all where its configuration comes from.
package machine

import (
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

// Where a host name comes from that Hostname does not give: a DHCP server, or
// the serial number of the machine and, without one, a MAC address.
const (
	FromDHCP   = "dhcp"
	FromSerial = "serial"
)

// Machine is the content of machine.yaml. Every field but the first two may be
// left out.
type Machine struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Hostname is a DNS name in lower case (RFC 1123); "" keeps the image's.
	Hostname string `json:"hostname"`

	// HostnameFrom is where a node that has no name takes one: FromDHCP or
	// FromSerial; "" for nowhere.
	HostnameFrom string `json:"hostnameFrom"`

	// Network is there before anything else needs it; the zero Config is the
	// image's own.
	Network network.Config `json:"network"`

	// Source says where the configuration is; the zero Source is nowhere.
	Source Source `json:"source"`

	// Files are put on a machine that has not joined its cluster yet, for
	// Source.NodeAgent.
	Files []InitialFile `json:"files"`

	// Contents says where the node has what its configuration refers to; the
	// zero Contents is nowhere.
	Contents Contents `json:"contents"`

	// Upgrade says where other versions of the system come from; the zero
	// Upgrade is nowhere.
	Upgrade Upgrade `json:"upgrade"`

	// DataVolume says which disk is for what the kubelet keeps, before any size
	// that the configuration asks for; the zero DataVolume leaves it to that.
	DataVolume DataVolume `json:"dataVolume"`

	// Install says which disk a node that was started over the network, or from
	// a stick, puts its system on; nil for none, and on a node that runs from
	// its disk it says nothing.
	Install *Install `json:"install"`

	// State says which disk has the state of a node that runs from memory; nil
	// leaves it in memory.
	State *State `json:"state"`

	// DebugShell lists terminals that get a root shell without a password,
	// without /dev/: ttyS1.
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

// NodeAgent is a cluster as Gardener tells its own node agent of it: Directory
// has config-<version>.yaml, machine-name, zone and
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
// with "loam.", as the agent is given no others.
type Credential struct {
	Name string `json:"name"`
}

// Cluster is a Kubernetes cluster that the node joins, and whose Secret has its
// configuration.
type Cluster struct {
	// Server is the URL of the API server, CA the certificates that its own is
	// checked with, as PEM.
	Server string `json:"server"`
	CA     string `json:"ca"`

	// Secret is the name of one of namespace kube-system.
	Secret string `json:"secret"`

	// BootstrapToken is <id>.<secret>, used while the node has no certificate.
	BootstrapToken string `json:"bootstrapToken"`

	// Machine is the name in the node's certificate; "" is the host name.
	Machine string `json:"machine"`

	// Zone and KubernetesVersion become labels of the Node; "" for none.
	Zone              string `json:"zone"`
	KubernetesVersion string `json:"kubernetesVersion"`

	// Tokens are kept in files as their Secrets have them.
	Tokens []Token `json:"tokens"`
}

// Token is a Secret of namespace kube-system whose key "token" is kept in the
// file Path, which is absolute.
type Token struct {
	Secret string `json:"secret"`
	Path   string `json:"path"`
}

// Upgrade is where a node's systems come from, and how it goes about them.
type Upgrade struct {
	// Repository is a directory, or an http(s) or oci URL, Root the text of the
	// root.json that it is signed by.
	Repository string `json:"repository"`
	Root       string `json:"root"`

	// Version is the release that the node is to run; "" leaves that to others.
	Version string `json:"version"`

	// Pace is the time between two upgrades that nobody hurries, Trial how long
	// a new system may take to be as well as the old one: Go durations, an hour
	// and ten minutes if empty.
	Pace  string `json:"pace"`
	Trial string `json:"trial"`

	// Mirrors are asked for content before Repository is: directories and URLs
	// of copies of it, and of nodes that share what they run; none has to be
	// trusted. Share is the address at which this node does so, such as
	// "192.0.2.1:2752"; "" is none.
	Mirrors []string `json:"mirrors"`
	Share   string   `json:"share"`

	// Window is when the machine may restart to try a system, in UTC, such as
	// "Sat,Sun 22:00-04:00"; "" is always.
	Window string `json:"window"`
}

// DataVolume is a claim to a disk for the kubelet's data, and what is made of
// it.
type DataVolume struct {
	Disk
	// FileSystem is ext4 or xfs; "" is ext4.
	FileSystem string `json:"fileSystem"`
}

// Install is a claim to a disk for the system. Wipe is the serial number of
// that disk once more, if what is on it may go.
type Install struct {
	Disk Disk   `json:"disk"`
	Wipe string `json:"wipe"`
}

// State is a claim to a whole disk for what is in /var.
type State struct {
	Disk Disk `json:"disk"`
}

// Disk is a volume.Claim: all that is set has to be true of the disk.
type Disk struct {
	// MinSize and MaxSize are as volume.ParseSize reads them, such as "100Gi";
	// both included.
	MinSize string `json:"minSize"`
	MaxSize string `json:"maxSize"`
	Serial  string `json:"serial"`
	Model   string `json:"model"`

	// Path is a name in /dev/disk/by-path.
	Path string `json:"path"`

	// OnlyEmpty means the only one that is empty of several.
	OnlyEmpty bool `json:"onlyEmpty"`
}

// Claim is what d says of the disk, if it was checked.
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

// Decode reads and checks a machine.yaml. Errors are of type document.Errors
// and name the document as given.
func Decode(name string, text []byte) (Machine, error) {
	var m Machine
	origin, err := document.DecodeWithOrigin(name, text, &m)
	report := document.NewReport(origin)
	if err == nil || m.APIVersion != "" && m.Kind != "" {
		// Of another kind of document every field would be unknown.
		report.Header(m.APIVersion, m.Kind, APIVersion, Kind)
		if headerErr := report.Err(); headerErr != nil {
			return m, headerErr
		}
	}

	if err != nil {
		return m, err
	}

	check(report, m)
	return m, report.Err()
}
