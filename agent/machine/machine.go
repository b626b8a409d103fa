package machine

import (
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/kernel"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/trust"
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
	// APIVersion is "loam.dev/v1alpha1".
	APIVersion string `json:"apiVersion"`
	// Kind is "Machine".
	Kind string `json:"kind"`

	// Hostname is a DNS name in lower case (RFC 1123); "" leaves the image's.
	Hostname string `json:"hostname"`

	// HostnameFrom is the source of the name of a node without Hostname:
	// FromDHCP or FromSerial; "" if none.
	HostnameFrom string `json:"hostnameFrom"`

	// Trust has the keys that must sign every later machine.yaml of the node.
	Trust Trust `json:"trust"`

	// Network is configured before all that needs it. Without it, the
	// image's own counts.
	Network network.Config `json:"network"`

	// Proxy is the HTTP proxy for images and releases; none if absent.
	Proxy Proxy `json:"proxy"`

	// Source says where the configuration comes from; from nowhere if absent.
	Source Source `json:"source"`

	// Cluster makes the machine a cluster of its own, instead of Source.
	Cluster OwnCluster `json:"cluster"`

	// Files are placed on a machine that has not joined its cluster yet, whose
	// source is nodeAgent.
	Files []InitialFile `json:"files"`

	// Contents says where the node finds the content that its configuration
	// refers to; nowhere if absent.
	Contents Contents `json:"contents"`

	// Images says which container images the configuration may have files of.
	Images Images `json:"images"`

	// Upgrade says where releases of the system come from; from nowhere if
	// absent.
	Upgrade Upgrade `json:"upgrade"`

	// DataVolume claims the disk for the kubelet's data. It goes before a size
	// in the configuration, which decides without it.
	DataVolume Volume `json:"dataVolume"`

	// Install claims the disk on which a node that was started over the
	// network, or from a USB installer, installs the system; none if absent. A
	// node that runs from its disk ignores it.
	Install *Install `json:"install"`

	// State says where the state of the node is kept, and what becomes of a
	// damaged one. Without it, the state is where the system is, not encrypted.
	State *State `json:"state"`

	// Kernel opens to all processes what the image keeps closed to those without
	// privileges; by default all of it stays closed.
	Kernel kernel.Opening `json:"kernel"`

	// DebugShell lists terminals with a root shell without a password, without
	// /dev/, such as ttyS1.
	DebugShell []string `json:"debugShell"`
}

// Trust has the keys that must sign every later machine.yaml of the node: one
// of them is enough, and the serial number must be higher than before. Without
// keys, and without any in the image, no signature is needed.
type Trust struct {
	// Keys are public ed25519 keys, each the base64 line of the PEM file.
	Keys []string `json:"keys"`
}

// Proxy is an HTTP proxy for what containerd and the agent fetch: images,
// releases, and what a file waits for. The API server of the cluster and the
// networks of the node's own cluster are reached without it, as are the names of
// Services, the machine itself and its links.
type Proxy struct {
	// URL is http://HOST:PORT or https://HOST:PORT, also with USER:PASSWORD@
	// before the host.
	URL string `json:"url"`

	// NoProxy lists what else is reached without it: names and domains with all
	// names below them, addresses, and networks such as "10.0.0.0/8".
	NoProxy []string `json:"noProxy"`
}

// Source has at most one field set.
type Source struct {
	File       *File       `json:"file"`
	ESP        *ESP        `json:"esp"`
	Credential *Credential `json:"credential"`
	Cluster    *Cluster    `json:"cluster"`
	NodeAgent  *NodeAgent  `json:"nodeAgent"`
}

// OwnCluster is a Kubernetes cluster that Loam nodes make by themselves.
type OwnCluster struct {
	// Init makes the machine the first node of a new cluster with these
	// settings, once: when the cluster was made, other settings change
	// nothing. All may be left out.
	Init *plane.Settings `json:"init"`

	// AllowSlowDisk makes the cluster on a disk that is too slow for etcd, too:
	// one that takes 100 ms or longer for a sync.
	AllowSlowDisk bool `json:"allowSlowDisk"`

	// EtcdVolume claims the disk for the data of etcd, before there is a cluster.
	// Without it, they are on the state partition. A disk that dataVolume matches,
	// too, is not taken.
	EtcdVolume Volume `json:"etcdVolume"`
}

// NodeAgent is a cluster as Gardener describes it to its own node agent:
// a directory has config-<version>.yaml, machine-name, zone and
// credentials/bootstrap-token.
type NodeAgent struct {
	// Directory is the absolute path of that directory, /var/lib/gardener-node-agent
	// if absent.
	Directory string `json:"directory"`
}

// File is a file of the node, watched for changes.
type File struct {
	// Path is the absolute path of the file.
	Path string `json:"path"`
}

// ESP is a file of the EFI system partition.
type ESP struct {
	// Path is the path of the file, and begins with / at the root of the partition.
	Path string `json:"path"`
}

// Credential is a systemd credential, from firmware or hypervisor.
type Credential struct {
	// Name is the name of the credential. It begins with "loam.", because the agent
	// is given no others.
	Name string `json:"name"`
}

// Cluster is a Kubernetes cluster that the node joins, and whose Secret has its
// configuration.
type Cluster struct {
	// Server is the URL of the API server.
	Server string `json:"server"`
	// CA has the certificates that verify it, as PEM.
	CA string `json:"ca"`

	// Secret is the name of a Secret in namespace kube-system.
	Secret string `json:"secret"`

	// BootstrapToken is <id>.<secret>, used while the node has no certificate.
	BootstrapToken string `json:"bootstrapToken"`

	// Machine is the name in the node's certificate; "" is the host name.
	Machine string `json:"machine"`

	// Zone becomes a label of the Node; "" if none.
	Zone string `json:"zone"`
	// KubernetesVersion becomes a label of the Node; "" if none.
	KubernetesVersion string `json:"kubernetesVersion"`

	// Tokens are stored in files, as their Secrets have them.
	Tokens []Token `json:"tokens"`
}

// Token is a token of a Secret that is stored in a file.
type Token struct {
	// Secret is the name of a Secret in namespace kube-system, whose key "token" is
	// stored.
	Secret string `json:"secret"`
	// Path is the absolute path of the file with it.
	Path string `json:"path"`
}

// Newest is the [Upgrade.Version] of a machine that follows its repository.
const Newest = "newest"

// Upgrade says where a node's releases come from, and how it upgrades.
type Upgrade struct {
	// Repository is a directory, or an http(s) or oci URL.
	Repository string `json:"repository"`
	// Root is the text of the root.json that has signed the repository.
	Root string `json:"root"`

	// Version is the release for the node to run; "newest" is each release of the
	// repository that is newer, once it reaches the machine, and "" leaves that to the
	// cluster or the operator.
	Version string `json:"version"`

	// Hold is why the machine keeps its system, whatever Version, the cluster or
	// `loam upgrade` without --now ask for; "" if it does not.
	Hold string `json:"hold"`

	// Pace is the time between two upgrades that are not urgent, an hour if absent.
	Pace string `json:"pace"`
	// Trial is how long a new system may take to be as healthy as the old one, ten
	// minutes if absent.
	Trial string `json:"trial"`

	// Mirrors are asked for content before the repository: directories and URLs of
	// copies of it, and of nodes that share what they run. They need not be trusted.
	Mirrors []string `json:"mirrors"`
	// Share is the address at which this node shares, such as "192.0.2.1:2752"; ""
	// if none.
	Share string `json:"share"`

	// Window is the maintenance window in which the machine may restart to try
	// a system, in UTC, such as "Sat,Sun 22:00-04:00"; "" is always.
	Window string `json:"window"`

	// Turns keeps machines from restarting all at once.
	Turns Turns `json:"turns"`
}

// Turns is a server that says when the machine may restart to try a system.
type Turns struct {
	// FleetLock is the base URL of a server of the FleetLock protocol, which takes
	// the place of the turns of a pool; "" for none.
	FleetLock string `json:"fleetlock"`
	// Group is the machine's group there; "" is "default".
	Group string `json:"group"`
}

// Volume is a claim to a disk for data, with its file system.
type Volume struct {
	DiskClaim
	// FileSystem is ext4 or xfs; "" is ext4.
	FileSystem string `json:"fileSystem"`
}

// Install is a claim to a disk for the system.
type Install struct {
	// Disk claims the disk for the system: it must match all fields that are set.
	Disk DiskClaim `json:"disk"`
	// Wipe repeats the serial number of that disk if its content may be overwritten.
	Wipe string `json:"wipe"`
}

// OnDamageReset is a value of State.OnDamage.
const OnDamageReset = "reset"

// State is about /var. Disk is for a node that runs from memory, Encrypt for a
// node that runs from its disk.
type State struct {
	// Disk claims the whole disk for /var of a node that runs from memory; the
	// zero Disk leaves the state in memory.
	Disk DiskClaim `json:"disk"`

	// Encrypt says where the key of the state comes from at each boot: "tpm" or
	// "key", an operator; "" does not encrypt. It counts for a new node.
	Encrypt string `json:"encrypt"`

	// OnDamage says what happens if e2fsck cannot repair the state partition:
	// OnDamageReset formats it, and all that it holds is lost; "" leaves it as
	// it is, and the node runs with its state in memory.
	OnDamage string `json:"onDamage"`
}

// Keys that open an encrypted state: one that the machine's TPM seals, or one
// that an operator gives to the machine.
const (
	EncryptTPM = "tpm"
	EncryptKey = "key"
)

// StateDisk returns the claim to a disk for the state, nil without one.
func (m Machine) StateDisk() *DiskClaim {
	if m.State == nil || m.State.Disk == (DiskClaim{}) {
		return nil
	}
	return &m.State.Disk
}

// Encrypt returns State.Encrypt, "" without State.
func (m Machine) Encrypt() string {
	if m.State == nil {
		return ""
	}
	return m.State.Encrypt
}

// DiskClaim is a volume.Claim: a disk must match all fields that are set.
type DiskClaim struct {
	// MinSize is the least size of the disk, itself included, such as "100Gi".
	MinSize string `json:"minSize"`
	// MaxSize is the largest size of the disk, itself included, such as "2Ti".
	MaxSize string `json:"maxSize"`
	// Serial is the serial number as `loam disks` prints it.
	Serial string `json:"serial"`
	// Model is the model as `loam disks` prints it.
	Model string `json:"model"`

	// Path is a name in /dev/disk/by-path.
	Path string `json:"path"`

	// OnlyEmpty means the only empty disk among several.
	OnlyEmpty bool `json:"onlyEmpty"`
}

// Claim returns the claim, if d was checked.
func (d DiskClaim) Claim() volume.Claim {
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

// Values of Images.Tags.
const (
	TagsAllow  = "allow"
	TagsRefuse = "refuse"
)

// Images says which container images the configuration may have files of
// (imageRef), if the node pulls them.
type Images struct {
	// Tags says whether a tag names an image, or only a digest does: TagsAllow
	// or TagsRefuse; "" allows them to nodes of a cluster.
	Tags string `json:"tags"`

	// Keys are public keys as PEM (cosign.pub), one of which must have signed
	// each image; without keys, signatures do not matter.
	Keys []string `json:"keys"`
}

// DigestsOnly reports whether the node refuses images that a tag names.
// Gardener names images by tags, so a node of a cluster takes them unless
// machine.yaml says otherwise.
func (m Machine) DigestsOnly() bool {
	if m.Images.Tags != "" {
		return m.Images.Tags == TagsRefuse
	}
	return m.Source.Cluster == nil && m.Source.NodeAgent == nil
}

// Directory is a directory of the node.
type Directory struct {
	// Path is the absolute path of the directory.
	Path string `json:"path"`
}

// DecodeUnverified is Decode for a document that may be signed. It does not look
// at the signature: it is for commands, and not for what configures a node.
func DecodeUnverified(name string, text []byte) (Machine, error) {
	opened, err := trust.Open(text)
	if err != nil {
		return Machine{}, fmt.Errorf("%s: %w", name, err)
	}
	return Decode(name, opened.Text)
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
