package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
)

// fakeNode is a node in a directory, with disks in memory. Its mounts are only
// recorded: the directory stays the same.
type fakeNode struct {
	t       *testing.T
	purpose *Purpose
	dir     string
	disks   map[string]*inMemory
	did     []string
	// fails is what a command or a mount ends with, by its words.
	fails map[string]error
	used  bool
	// mounted are the mount points.
	mounted map[string]bool
}

func newFakeNode(t *testing.T) *fakeNode {
	p := &fakeNode{
		t:       t,
		purpose: Data,
		dir:     t.TempDir(),
		disks:   map[string]*inMemory{},
		fails:   map[string]error{},
		mounted: map[string]bool{},
	}
	p.write("proc/self/mountinfo", "23 1 8:3 / /var rw - ext4 /dev/sda3 rw\n")
	p.write("var/lib/loam/lock", "")
	return p
}

func (p *fakeNode) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o644))
	if err != nil {
		p.t.Fatal(err)
	}
}

// add plugs a disk in.
func (p *fakeNode) add(name string, size int64) *inMemory {
	d := newSparse(size)
	p.disks["/dev/"+name] = d

	for _, class := range []string{"sys/block/", "sys/class/block/"} {
		p.write(class+name+"/size", fmt.Sprint(size/512))
	}

	p.write("sys/block/"+name+"/queue/logical_block_size", "512")
	p.write("sys/block/"+name+"/serial", "S-"+name)
	return d
}

// remove unplugs it.
func (p *fakeNode) remove(name string) {
	err := errors.Join(os.RemoveAll(filepath.Join(p.dir, "sys/block", name)),
		os.RemoveAll(filepath.Join(p.dir, "sys/class/block", name)))
	if err != nil {
		p.t.Fatal(err)
	}
}

type broken int

func (b broken) Error() string { return fmt.Sprintf("exit status %d", int(b)) }
func (b broken) ExitCode() int { return int(b) }

func (p *fakeNode) Run(_ context.Context, command []string) error {
	words := strings.ReplaceAll(strings.Join(command, " "), p.dir, "")
	p.did = append(p.did, words)
	return p.fails[words]
}

func (p *fakeNode) Mount(device, dir, fileSystem, options string) error {
	at := strings.TrimPrefix(dir, p.dir)
	words := strings.TrimSpace(fmt.Sprintf("mount %s %s %s %s", device, at, fileSystem, options))
	p.did = append(p.did, words)
	if err := p.fails[words]; err != nil {
		return err
	}

	if p.mounted[at] {
		return unix.EBUSY // The same device at the same place, as Linux has it.
	}

	p.mounted[at] = true
	if at == p.purpose.Mountpoint {
		p.write("proc/self/mountinfo",
			fmt.Sprintf("23 1 8:3 / /var rw - ext4 /dev/sda3 rw\n"+
				"24 23 8:16 / %s rw,noatime shared:4 - %s %s rw\n", at, fileSystem, device))
	}

	return nil
}

func (p *fakeNode) Empty(dir string) error {
	p.did = append(p.did, "empty "+strings.TrimPrefix(dir, p.dir))
	return nil
}

func (p *fakeNode) Unmount(dir string) error {
	at := strings.TrimPrefix(dir, p.dir)
	if !p.mounted[at] {
		return unix.EINVAL
	}
	delete(p.mounted, at)
	p.did = append(p.did, "umount "+strings.TrimPrefix(dir, p.dir))
	return nil
}

func (p *fakeNode) volume() Volume {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { root.Close() })

	return Volume{
		For: p.purpose,
		Machine: Machine{
			Root: os.DirFS(p.dir),
			Open: func(node string, _ bool) (Device, error) {
				return opened{p.disks[node]}, nil
			},
		},
		Maker: Maker{
			For: p.purpose,
			Open: func(node string) (Writable, error) {
				return &recorder{disk: p.disks[node], atSync: func() {}}, nil
			},
			Run: func(_ context.Context, command []string) error {
				// Only the superblock of ext4, as the disk is not mounted.
				p.did = append(p.did, command[0])
				f, err := os.OpenFile(command[len(command)-1], os.O_RDWR, 0)
				if err != nil {
					return err
				}

				info, err := f.Stat()
				for _, b := range superblock(p.purpose.Label, info.Size()) {
					_, writeErr := f.WriteAt(b.data, b.at)
					err = errors.Join(err, writeErr)
				}

				return errors.Join(err, f.Close())
			},
			Scratch: p.t.TempDir(),
		},
		System: p,
		Dir:    durable.New(root, nil),
		Path:   p.dir,
		InUse:  func(context.Context) bool { return p.used },
	}
}

type bytesAt struct {
	at   int64
	data []byte
}

// superblock returns the bytes that make ReadContent report a complete ext4
// volume with that size.
func superblock(label string, size int64) []bytesAt {
	b := make([]byte, 1024)
	put := func(at int, n uint64, width int) {
		for i := range width {
			b[at+i] = byte(n >> (8 * i))
		}
	}

	put(0x04, uint64(size/4096), 4)
	put(0x18, 2, 4)
	put(0x38, 0xef53, 2)
	put(0x5c, 0x4, 4)
	put(0x60, 0x40, 4)
	copy(b[0x78:], label)

	return []bytesAt{{1024, b}}
}

func (p *fakeNode) claims(r Record) {
	p.t.Helper()
	if err := p.purpose.WriteRecord(p.volume().Dir, r); err != nil {
		p.t.Fatal(err)
	}
}

func (p *fakeNode) record() Record {
	p.t.Helper()
	r, ok, err := p.purpose.ReadRecord(os.DirFS(p.dir))
	if err != nil || !ok {
		p.t.Fatalf("record: %v, %v", ok, err)
	}
	return r
}

func TestADataVolumeIsMadeOnceAndThenMounted(t *testing.T) {
	p := newFakeNode(t)
	p.add("sdb", 50*gib).write(0, []byte("LUKS\xba\xbe"))
	p.add("sdc", 50*gib)
	p.write("var/lib/kubelet/config", "kept")
	claim := Record{Claim: OfSize(50 * gib), FileSystem: "ext4"}
	p.claims(claim)

	s, err := p.volume().Ensure(t.Context())
	if err != nil || s.Device != "/dev/sdc" || s.Size != 50*gib {
		t.Fatalf("%+v, %v", s, err)
	}

	want := []string{
		"mke2fs", "e2fsck -p /dev/sdc", "mount /dev/sdc /run/loam/data-volume ext4 prjquota",
		"cp --archive --one-file-system /var/lib/kubelet/. /run/loam/data-volume/" + carrying,
		"umount /run/loam/data-volume", "empty /var/lib/kubelet", "e2fsck -p /dev/sdc",
		"mount /dev/sdc /var/lib/kubelet ext4 prjquota",
	}
	if !slices.Equal(p.did, want) {
		t.Errorf("did %q", p.did)
	}

	claim.Made = true
	if p.record() != claim {
		t.Errorf("record %+v", p.record())
	}

	if s, err := p.volume().Ensure(t.Context()); err != nil || s.Device != "/dev/sdc" ||
		len(p.did) != len(want) {
		t.Errorf("again: %+v, %v, %q", s, err, p.did[len(want):])
	}

	// The machine restarts.
	p.write("proc/self/mountinfo", "23 1 8:3 / /var rw - ext4 /dev/sda3 rw\n")
	p.did = nil
	p.mounted = map[string]bool{}
	if s, err := p.volume().Mount(t.Context()); err != nil || s.Device != "/dev/sdc" ||
		!slices.Equal(p.did, want[6:]) {
		t.Errorf("after a restart: %+v, %v, %q", s, err, p.did)
	}
}

func TestOnlyTheAgentMakesAVolume(t *testing.T) {
	p := newFakeNode(t)
	p.add("sdb", 50*gib)
	p.claims(Record{Claim: OfSize(50 * gib), FileSystem: "ext4"})
	if _, err := p.volume().Mount(t.Context()); !errors.Is(err, ErrNew) || len(p.did) > 0 {
		t.Errorf("%v, did %q", err, p.did)
	}

	p.used = true
	if _, err := p.volume().Ensure(t.Context()); !errors.Is(err, ErrInUse) || len(p.did) > 0 {
		t.Errorf("while the kubelet runs: %v, did %q", err, p.did)
	}
}

func TestUnfitVolumesAreRefused(t *testing.T) {
	const size = 50 * gib
	for _, test := range []struct {
		name     string
		scenario func(p *fakeNode)
		made     bool
		err      string
		did      int
	}{
		{
			name:     "its disk is missing, and another is empty",
			scenario: func(p *fakeNode) { p.add("sdc", size) },
			made:     true,
			err:      "the data volume that the node had is not there",
		},
		{
			name: "its file system is broken",
			scenario: func(p *fakeNode) {
				volumeOn(p.add("sdb", size), size)
				p.fails["e2fsck -p /dev/sdb"] = broken(4)
			},
			made: true,
			err:  "check data volume /dev/sdb: exit status 4\nhint: ",
			did:  1,
		},
		{
			name: "the kernel does not take it",
			scenario: func(p *fakeNode) {
				volumeOn(p.add("sdb", size), size)
				p.fails["mount /dev/sdb /var/lib/kubelet ext4 prjquota"] = unix.EIO
			},
			made: true,
			err:  "mount data volume /dev/sdb at /var/lib/kubelet: input/output error",
			did:  2,
		},
		{
			name: "what was kept has no room on it",
			scenario: func(p *fakeNode) {
				p.add("sdb", size)
				p.write("var/lib/kubelet/config", "kept")
				p.fails["cp --archive --one-file-system /var/lib/kubelet/. /run/loam/data-volume/"+
					carrying] = unix.ENOSPC
			},
			err: "migrate ",
			did: 5,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newFakeNode(t)
			test.scenario(p)
			p.claims(Record{Claim: OfSize(size), FileSystem: "ext4", Made: test.made})

			s, err := p.volume().Ensure(t.Context())
			if err == nil || !strings.Contains(hint.Text(err), test.err) || s.Device != "" {
				t.Errorf("%+v, %v", s, err)
			}

			if len(p.did) != test.did || p.record().Made != test.made {
				t.Errorf("did %q, record %+v", p.did, p.record())
			}
		})
	}
}

// volumeOn writes a complete volume for a disk of that size to a disk.
func volumeOn(d *inMemory, size int64) {
	for _, b := range superblock(Label, size) {
		d.write(b.at, b.data)
	}
}

func TestAVolumeThatComesBackWithMoreRoom(t *testing.T) {
	p := newFakeNode(t)
	volumeOn(p.add("sdb", 80*gib), 50*gib)
	p.claims(Record{Claim: OfSize(50 * gib), FileSystem: "ext4", Made: true})
	p.fails["e2fsck -p /dev/sdb"] = broken(1) // It has repaired something.
	p.fails["mount /dev/sdb /var/lib/kubelet ext4 prjquota"] = unix.EINVAL
	p.fails["resize2fs /dev/sdb"] = broken(1)
	s, err := p.volume().Mount(t.Context())
	want := []string{
		"e2fsck -p /dev/sdb", "mount /dev/sdb /var/lib/kubelet ext4 prjquota",
		"mount /dev/sdb /var/lib/kubelet ext4", "resize2fs /dev/sdb",
	}
	if err != nil || s.Device != "/dev/sdb" || !slices.Equal(p.did, want) || len(s.Warnings) != 1 {
		t.Errorf("%+v, %v, did %q", s, err, p.did)
	}

	delete(p.fails, "resize2fs /dev/sdb")
	if s, err := p.volume().Refresh(t.Context(), 50*gib); err != nil || len(s.Warnings) != 0 ||
		p.did[len(p.did)-1] != "resize2fs /dev/sdb" {
		t.Errorf("later: %+v, %v, did %q", s, err, p.did)
	}

	if s, err := p.volume().Refresh(t.Context(), 80*gib); err != nil || s.Size != 80*gib ||
		len(p.did) != 5 {
		t.Errorf("of the same size: %+v, %v, did %q", s, err, p.did)
	}

	p.remove("sdb")
	if s, err := p.volume().Refresh(t.Context(), 80*gib); err == nil || !strings.Contains(err.Error(),
		"the disk of the data volume, /dev/sdb, is gone") || s.Size != 0 {
		t.Errorf("unplugged: %+v, %v", s, err)
	}
}

func TestADamagedRecordTakesNoOtherDisk(t *testing.T) {
	p := newFakeNode(t)
	p.add("sdb", 50*gib)
	p.write(RecordFile, `{"claim":{"min`)
	if _, err := p.volume().Ensure(t.Context()); !errors.Is(err, ErrNone) || len(p.did) > 0 {
		t.Errorf("%v, did %q", err, p.did)
	}

	volumeOn(p.add("sdc", 30*gib), 30*gib)
	if s, err := p.volume().Ensure(t.Context()); err != nil || s.Device != "/dev/sdc" {
		t.Errorf("its volume: %+v, %v", s, err)
	}
}

// TestAnAgentThatIsKilledGoesOn where what it was about to migrate is still
// mounted.
func TestAnAgentThatIsKilledGoesOn(t *testing.T) {
	p := newFakeNode(t)
	volumeOn(p.add("sdb", 50*gib), 50*gib)
	p.claims(Record{Claim: OfSize(50 * gib), FileSystem: "ext4"})
	p.mounted["/run/loam/data-volume"] = true
	if s, err := p.volume().Ensure(t.Context()); err != nil || s.Device != "/dev/sdb" {
		t.Errorf("%+v, %v, did %q", s, err, p.did)
	}
}

func TestSomethingElseIsMountedThere(t *testing.T) {
	p := newFakeNode(t)
	p.add("sdb", 50*gib)
	p.claims(Record{Claim: OfSize(50 * gib), FileSystem: "ext4"})
	p.write("proc/self/mountinfo", "24 23 0:40 / /var/lib/kubelet rw shared:4 - tmpfs tmpfs rw\n")

	_, err := p.volume().Ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(),
		"tmpfs is mounted at /var/lib/kubelet, and is not the data volume") {
		t.Error(err)
	}

	if p.record().Made || len(p.did) > 0 {
		t.Errorf("record %+v, did %q", p.record(), p.did)
	}
}
