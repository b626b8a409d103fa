package volume

import (
	"cmp"
	"errors"
	"slices"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Purpose is what a volume is for. A node has at most one volume of each, and a disk
// that has a volume of one is not empty for the others.
type Purpose struct {
	// Name is the name of such a volume in texts, and User what needs it there.
	Name, User string

	// Field is the field of machine.yaml with its claim.
	Field string

	// Label is the label of its file system, of at most 12 bytes, and of its
	// container.
	Label string

	// Mark at the start of a disk says that the disk was empty and claimed, and is
	// being formatted. The first block of the file system, which is written last,
	// replaces it.
	Mark string

	// Mapping is the name of the device with the decrypted volume.
	Mapping string

	// Mountpoint is where it is mounted. Migrates says that what is there before
	// is copied to a new volume; otherwise a new volume is refused then.
	Mountpoint string
	Migrates   bool

	// Replaceable says that a claim that names another disk takes it if the volume is
	// gone. Otherwise nothing may begin again without what the volume has.
	Replaceable bool

	// Unit uses the volume, and waits for it.
	Unit string

	// RecordFile, beneath the root directory, stores the Record. While it exists
	// the unit starts only with the volume. DeferFile lets it run without until the
	// machine restarts; "" if nothing does.
	RecordFile, DeferFile string

	// InUse says that a volume has to wait for a restart of the machine.
	InUse error
}

// Data is the volume of the kubelet's data. Its label is Gardener's, so that a disk
// that Gardener's script has formatted is found, too.
var Data = &Purpose{
	Name:        "data volume",
	User:        "the kubelet",
	Field:       "dataVolume",
	Label:       Label,
	Mark:        FormatMark,
	Mapping:     "data",
	Mountpoint:  Mountpoint,
	Migrates:    true,
	Replaceable: true,
	Unit:        "kubelet.service",
	RecordFile:  RecordFile,
	DeferFile:   DeferFile,
	InUse:       ErrInUse,
}

// Etcd is the volume of what etcd keeps. The data are below the place where systemd
// has them for a DynamicUser, with nothing else on the volume.
var Etcd = &Purpose{
	Name:       "etcd volume",
	User:       "etcd",
	Field:      "cluster.etcdVolume",
	Label:      "LOAMETCD",
	Mark:       "LOAM ETCD VOLUME, TO BE FORMATTED\n",
	Mapping:    "etcd",
	Mountpoint: "/var/lib/private/etcd",
	Unit:       "etcd.service",
	RecordFile: "var/lib/loam/etcd-volume.json",
	InUse: hint.With(fault.With(errors.New("etcd is running without its volume"), fault.InUse),
		"restart the machine"),
}

// a returns the name with its article.
func (p *Purpose) a() string {
	if p == Etcd {
		return "an " + p.Name
	}
	return "a " + p.Name
}

// Purposes are all of them.
func Purposes() []*Purpose { return []*Purpose{Data, Etcd} }

// purposeOf returns the first purpose that a test is true for, nil without one.
func purposeOf(is func(*Purpose) bool) *Purpose {
	all := Purposes()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

// labelled returns the purpose with a label, nil without one.
func labelled(label string) *Purpose {
	return purposeOf(func(p *Purpose) bool { return p.Label == label })
}

// purpose returns what the disk is claimed for, nil if it is for no volume.
func (f Facts) purpose() *Purpose {
	field := cmp.Or(f.Field, Data.Field)
	return purposeOf(func(p *Purpose) bool { return p.Field == field })
}

// Rival is the claim of another purpose on the same machine.
type Rival struct {
	Field string
	Claim Claim
}

// rival returns the field with another claim that matches the disk, "" if none does.
func (f Facts) rival(d Disk) string {
	for _, r := range f.Rivals {
		if !r.Claim.IsZero() && r.Claim.Matches(d) {
			return r.Field
		}
	}
	return ""
}
