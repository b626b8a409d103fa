package volume

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// TestPurposesAreApart: two purposes have nothing in common by which one would take what
// belongs to the other, and the file systems can have their labels.
func TestPurposesAreApart(t *testing.T) {
	seen := map[string]string{}
	for _, p := range Purposes() {
		for _, value := range []string{
			p.Field, p.Label, p.Mark, p.Mapping, p.Mountpoint, p.Unit, p.RecordFile,
		} {
			if value == "" || seen[value] != "" {
				t.Errorf("%s: %q is also of %q", p.Name, value, seen[value])
			}
			seen[value] = p.Name
		}
		if len(p.Label) > 12 || !strings.HasSuffix(p.Mark, "\n") || p.InUse == nil {
			t.Errorf("%s: label %q, mark %q, %v", p.Name, p.Label, p.Mark, p.InUse)
		}
	}
}

func TestAnEtcdVolumeIsMadeAndMounted(t *testing.T) {
	const size = 50 * gib
	p := newFakeNode(t)
	p.purpose = Etcd
	p.add("sdb", size).write(1024, superblock(Label, size)[0].data) // a data volume
	disk := p.add("sdc", size)
	claim := Record{Claim: Claim{OnlyEmpty: true}, FileSystem: "ext4"}
	p.claims(claim)

	s, err := p.volume().Ensure(t.Context())
	want := []string{
		"mke2fs", "e2fsck -p /dev/sdc", "mount /dev/sdc /var/lib/private/etcd ext4 prjquota",
	}
	if err != nil || s.Device != "/dev/sdc" || !slices.Equal(p.did, want) {
		t.Fatalf("%+v, %v, did %q", s, err, p.did)
	}
	claim.Made = true
	if p.record() != claim {
		t.Errorf("record %+v", p.record())
	}
	if c := ReadContent(disk, size); c.Volume != Etcd.Label || c.FileSystem != "ext4" {
		t.Errorf("content %+v", c)
	}

	p.restart()
	if s, err := p.volume().Mount(t.Context()); err != nil || s.Device != "/dev/sdc" {
		t.Errorf("after a restart: %+v, %v, did %q", s, err, p.did)
	}

	// The kubelet's volume is another one.
	p.restart()
	p.purpose = Data
	p.claims(Record{Claim: Claim{MinSize: 1}, FileSystem: "ext4", Made: true})
	if s, err := p.volume().Mount(t.Context()); err != nil || s.Device != "/dev/sdb" {
		t.Errorf("the data volume: %+v, %v", s, err)
	}
}

// TestAnEtcdVolumeOfAnEncryptedNode has a mapping of its own.
func TestAnEtcdVolumeOfAnEncryptedNode(t *testing.T) {
	const size = 50 * gib
	p := newFakeNode(t)
	p.purpose = Etcd
	disk := p.add("sdb", size)
	p.claims(Record{Claim: OfSize(size), FileSystem: "ext4"})

	s, err := p.encrypting().Ensure(t.Context())
	if err != nil || s.Mapped != "/dev/dm-1" || !slices.Contains(p.did, "map etcd") {
		t.Fatalf("%+v, %v, did %q", s, err, p.did)
	}
	c := ReadContent(disk, size)
	if c.Container == "" || c.Container != p.record().Encryption.UUID || c.Volume != Etcd.Label {
		t.Errorf("content %+v", c)
	}

	f := Facts{Disks: []Disk{{Device: "/dev/sdb", Size: size, Content: c}}}
	if choice, err := Decide(f, OfSize(size)); err == nil {
		t.Errorf("as a data volume: %+v", choice)
	}
}

// TestNoVolumeHidesWhatEtcdHas: it would start without its data.
func TestNoVolumeHidesWhatEtcdHas(t *testing.T) {
	const size = 50 * gib
	for name, on := range map[string]func(*inMemory){
		"an empty disk":      func(*inMemory) {},
		"a volume of etcd's": func(d *inMemory) { d.write(1024, superblock(Etcd.Label, size)[0].data) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakeNode(t)
			p.purpose = Etcd
			on(p.add("sdb", size))
			p.write("var/lib/private/etcd/member/snap/db", "data")
			p.claims(Record{Claim: OfSize(size), FileSystem: "ext4"})

			_, err := p.volume().Ensure(t.Context())
			if fault.Of(err) != fault.CannotBeApplied || hint.Of(err) == "" || len(p.did) > 0 {
				t.Errorf("%v, did %q", err, p.did)
			}
		})
	}
}

// TestNoOtherDiskReplacesTheEtcdVolume: etcd would begin again without its data.
func TestNoOtherDiskReplacesTheEtcdVolume(t *testing.T) {
	const size = 50 * gib
	p := newFakeNode(t)
	p.purpose = Etcd
	p.add("sdc", size)
	p.claims(Record{Claim: Claim{Serial: "S-sdc"}, FileSystem: "ext4", Made: true})
	if _, err := p.volume().Ensure(t.Context()); !errors.Is(err, ErrNone) || len(p.did) > 0 {
		t.Errorf("%v, did %q", err, p.did)
	}
}

// TestADiskOfTwoClaims becomes neither volume, whichever comes first.
func TestADiskOfTwoClaims(t *testing.T) {
	const size = 50 * gib
	p := newFakeNode(t)
	p.add("sdb", size)
	for _, purpose := range Purposes() {
		p.purpose = purpose
		p.claims(Record{Claim: Claim{MinSize: size}, FileSystem: "ext4"})
	}

	for _, purpose := range Purposes() {
		p.purpose = purpose
		_, err := p.volume().Ensure(t.Context())
		refusal, is := errors.AsType[*Refusal](err)
		if !is || len(p.did) > 0 || len(refusal.Candidates) != 1 || refusal.Candidates[0].Offer != "" ||
			!strings.Contains(hint.Of(err), "/dev/sdb") {
			t.Errorf("%s: %v; hint %q; did %q", purpose.Name, err, hint.Of(err), p.did)
		}
	}

	// Once one of them is narrower, both disks are taken.
	p.add("sdc", size)
	p.purpose = Etcd
	p.claims(Record{Claim: Claim{Serial: "S-sdb"}, FileSystem: "ext4"})
	p.purpose = Data
	p.claims(Record{Claim: Claim{Serial: "S-sdc"}, FileSystem: "ext4"})
	for _, purpose := range Purposes() {
		p.purpose = purpose
		if s, err := p.volume().Ensure(t.Context()); err != nil || s.Device == "" {
			t.Errorf("%s: %+v, %v", purpose.Name, s, err)
		}
	}
}

// TestAnotherMarkIsNoInvitation: a disk that is being formatted for one purpose is not
// empty for the other.
func TestAnotherMarkIsNoInvitation(t *testing.T) {
	const size = 50 * gib
	for _, p := range Purposes() {
		disk := newSparse(size)
		disk.write(0, []byte(p.Mark))
		f := Facts{Disks: []Disk{{Device: "/dev/sdb", Size: size, Content: ReadContent(disk, size)}}}
		for _, other := range Purposes() {
			f.Field = other.Field
			choice, err := Decide(f, OfSize(size))
			if got := err == nil && choice.Action == ToFinish; got != (p == other) {
				t.Errorf("a disk for the %s as %s: %+v, %v", p.Name, other.Name, choice, err)
			}
		}
	}
}
