package show

import (
	"errors"

	"github.com/loam-os/loam/agent/volume"
)

// Disks are the disks of a machine.
type Disks struct {
	Disks []Disk `json:"disks"`
	// Claimed is the disk that a machine.yaml claims for the kubelet; nil without one.
	Claimed *Claimed `json:"claimed,omitempty"`
	// EtcdClaimed is the disk that it claims for etcd; nil without one.
	EtcdClaimed *Claimed `json:"etcdClaimed,omitempty"`
	// InstallClaimed is the disk that it claims for the system; nil without one.
	InstallClaimed *Claimed `json:"installClaimed,omitempty"`
}

// Disk is a disk of a machine.
type Disk struct {
	// Device is the device node, such as "/dev/vdb".
	Device string `json:"device"`
	// Size is in bytes.
	Size int64 `json:"size"`

	// Model is the model as the disk says, "" if it does not.
	Model string `json:"model,omitempty"`
	// Serial is the serial number as the disk says, "" if it does not.
	Serial string `json:"serial,omitempty"`
	// WWID is the worldwide name as the disk says, "" if it does not.
	WWID string `json:"wwid,omitempty"`
	// Paths are its names in /dev/disk/by-path.
	Paths []string `json:"paths,omitempty"`

	// Removable says that the disk can be taken out; it is also true for a disk on
	// USB.
	Removable bool `json:"removable,omitempty"`
	// Network names the protocol over which another machine serves the disk.
	Network string `json:"network,omitempty"`
	// ReadOnly says that the kernel does not write to it.
	ReadOnly bool `json:"readOnly,omitempty"`

	// Uses says what uses the disk.
	Uses []string `json:"uses,omitempty"`
	// Content says in words what is on it.
	Content string `json:"content"`

	// Claim is the line of machine.yaml that would claim the disk, "" if none would.
	Claim string `json:"claim,omitempty"`
	// ClaimEmptied is the line that would claim it if it were empty.
	ClaimEmptied string `json:"claimEmptied,omitempty"`

	// Partitions are as the kernel sees them.
	Partitions []Partition `json:"partitions,omitempty"`
}

// Partition is a partition of a disk.
type Partition struct {
	// Device is the device node.
	Device string `json:"device"`
	// Label is the name that a GPT gives the partition.
	Label string `json:"label,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Content says in words what is on the partition.
	Content string `json:"content"`
}

// Claimed is what would become of a disk.
type Claimed struct {
	// Device is the device node.
	Device string `json:"device"`
	// FileSystem is the file system of a volume that the disk has, "" if it has none
	// or if it is encrypted.
	FileSystem string `json:"fileSystem,omitempty"`
	// Encrypted says that the disk has the encrypted volume of this node.
	Encrypted bool `json:"encrypted,omitempty"`
	// Format says that the disk would be formatted, or get a system.
	Format bool `json:"format"`
}

// DisksOf returns disks with the claim that would take each.
func DisksOf(disks []volume.Disk) (Disks, error) {
	refusal, err := Candidates(disks)
	all := Disks{Disks: []Disk{}}
	if err != nil {
		return all, err
	}

	for _, c := range refusal.Candidates {
		d := Disk{
			Device:       c.Disk.Device,
			Size:         c.Disk.Size,
			Model:        c.Disk.Model,
			Serial:       c.Disk.Serial,
			WWID:         c.Disk.WWID,
			Paths:        c.Disk.Paths,
			Removable:    c.Disk.Removable,
			Network:      c.Disk.Network,
			ReadOnly:     c.Disk.ReadOnly,
			Uses:         c.Disk.Uses,
			Content:      c.Disk.Summary(),
			Claim:        c.Offer,
			ClaimEmptied: c.OfferEmptied,
		}
		for _, p := range c.Disk.Parts {
			d.Partitions = append(d.Partitions, Partition{
				Device:  p.Device,
				Label:   p.Label,
				Size:    p.Size,
				Content: p.Summary(),
			})
		}
		all.Disks = append(all.Disks, d)
	}
	return all, nil
}

// Candidates returns disks as the refusal of a claim that is missing lists them.
func Candidates(disks []volume.Disk) (*volume.Refusal, error) {
	_, err := volume.Decide(volume.Facts{Disks: disks}, volume.Claim{})
	refusal := &volume.Refusal{}
	if errors.As(err, &refusal) {
		return refusal, nil
	}
	return nil, err
}
