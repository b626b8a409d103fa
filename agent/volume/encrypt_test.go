package volume

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/xts"

	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/luks"
	"github.com/loam-os/loam/test/judge"
)

// decrypt decrypts sectors of a container in place, by the parameters of its
// mapping.
func decrypt(t *testing.T, table string, data []byte, at int64) {
	t.Helper()
	key, err := hex.DecodeString(strings.Fields(table)[1])
	if err != nil {
		t.Fatal(err)
	}
	x, err := xts.NewCipher(aes.NewCipher, key)
	if err != nil {
		t.Fatal(err)
	}
	for sector := range slices.Chunk(data, luks.SectorSize) {
		x.Decrypt(sector, sector, uint64(at/512))
		at += luks.SectorSize
	}
}

// Map implements [System]: the device is a decrypted copy.
func (p *fakeNode) Map(name string, h *luks.Header, table string, size int64) (string, error) {
	p.did = append(p.did, "map "+name)
	raw := strings.Fields(table)[3]
	data := newSparse(size)
	for n := range p.disks[raw].sectors {
		at := n*512 - h.DataOffset()
		if at < 0 || at%luks.SectorSize != 0 {
			continue
		}
		sector := make([]byte, luks.SectorSize)
		if _, err := p.disks[raw].ReadAt(sector, n*512); err != nil {
			return "", err
		}
		decrypt(p.t, table, sector, at)
		data.write(at, sector)
	}

	p.disks["/dev/dm-1"] = data
	p.write("sys/class/block/dm-1/size", fmt.Sprint(size/512))
	p.write("sys/block/dm-1/dm/name", name)
	p.write("sys/block/dm-1/slaves/"+filepath.Base(raw)+"/size", "")
	p.write("sys/class/block/"+filepath.Base(raw)+"/holders/dm-1/size", "")
	return "/dev/dm-1", nil
}

// restart leaves the disks and the state of the node.
func (p *fakeNode) restart() {
	p.write("proc/self/mountinfo", "23 1 8:3 / /var rw - ext4 /dev/sda3 rw\n")
	p.did = nil
	p.mounted = map[string]bool{}
	delete(p.disks, "/dev/dm-1")
	for _, dir := range []string{
		"sys/class/block/dm-1", "sys/block/dm-1", "sys/class/block/sdb/holders",
	} {
		if err := os.RemoveAll(filepath.Join(p.dir, dir)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// encrypting is the node with an encrypted state.
func (p *fakeNode) encrypting() Volume {
	n := p.volume()
	n.Encrypt = true
	return n
}

// TestAVolumeOfAnEncryptedNode is encrypted, too: by a key on the state, and by
// the recovery key of the state.
func TestAVolumeOfAnEncryptedNode(t *testing.T) {
	const size = 50 * gib
	const recovery = "AAAA-BBBB"
	p := newFakeNode(t)
	disk := p.add("sdb", size)
	p.claims(Record{Claim: OfSize(size), FileSystem: "ext4"})
	slot, err := luks.Prepare([]byte(recovery), luks.ForKeys(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(slot)
	if err != nil {
		t.Fatal(err)
	}
	p.write(crypt.RecoveryName, string(text))

	s, err := p.encrypting().Ensure(t.Context())
	want := State{
		Device:     "/dev/sdb",
		Mapped:     "/dev/dm-1",
		FileSystem: "ext4",
		Size:       size,
	}
	if err != nil || s.Device != want.Device || s.Mapped != want.Mapped || s.Size != want.Size ||
		len(s.Warnings) > 0 {
		t.Fatalf("%+v, %v, did %q", s, err, p.did)
	}
	if len(p.mounted) != 1 ||
		slices.Contains(p.did, "mount /dev/sdb /var/lib/kubelet ext4 prjquota") {
		t.Errorf("did %q", p.did)
	}

	record := p.record()
	content := ReadContent(disk, size)
	if !record.Made || record.Encryption.UUID == "" || content.FileSystem != "" ||
		content.Container != record.Encryption.UUID {
		t.Errorf("record %+v, content %+v", record, content)
	}
	if again, err := p.encrypting().Ensure(t.Context()); err != nil || again.Mapped != s.Mapped {
		t.Errorf("again: %+v, %v", again, err)
	}

	slaves := filepath.Join(p.dir, "sys/block/dm-1/slaves")
	if err := os.Rename(slaves+"/sdb", slaves+".gone"); err != nil {
		t.Fatal(err)
	}
	if s, err := p.volume().Refresh(t.Context(), size); err == nil || s.Size != 0 {
		t.Errorf("unplugged: %+v, %v", s, err)
	}

	h, err := luks.Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Open(disk, []byte(recovery)); err != nil {
		t.Errorf("the recovery key: %v", err)
	}

	p.restart()
	if s, err := p.volume().Mount(t.Context()); err != nil || s.Mapped != "/dev/dm-1" ||
		!slices.Equal(p.did, []string{
			"map data", "e2fsck -p /dev/dm-1", "mount /dev/dm-1 /var/lib/kubelet ext4 prjquota",
		}) {
		t.Errorf("after a restart: %+v, %v, did %q", s, err, p.did)
	}
}

// TestAVolumeThatIsNotTheNodesOwn is never formatted, and not used.
func TestAVolumeThatIsNotTheNodesOwn(t *testing.T) {
	const size = 50 * gib
	claim := Record{Claim: OfSize(size), FileSystem: "ext4"}
	own := claim
	own.Made = true
	own.Encryption = Encryption{UUID: uuid.NewString(), Key: "00"}

	for _, tt := range []struct {
		name   string
		record Record
		on     func(*inMemory)
		want   string
	}{
		{
			name:   "a plain one, and the node is new",
			record: claim,
			on:     func(d *inMemory) { volumeOn(d, size) },
			want:   "is not encrypted, and the state of this node is\nhint: if nothing on it",
		},
		{
			name:   "a plain one in the place of the encrypted one",
			record: own,
			on:     func(d *inMemory) { volumeOn(d, size) },
			want:   "the data volume that the node had is not there",
		},
		{
			name:   "an encrypted one of another state",
			record: claim,
			on:     func(d *inMemory) { containerOn(t, d) },
			want:   "the recovery key of that state opens it",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newFakeNode(t)
			disk := p.add("sdb", size)
			tt.on(disk)
			before := len(disk.sectors)
			p.claims(tt.record)

			s, err := p.encrypting().Ensure(t.Context())
			if err == nil || !strings.Contains(hint.Text(err), tt.want) || s.Device != "" {
				t.Errorf("%+v, %v", s, err)
			}
			if len(p.did) > 0 || len(disk.sectors) != before {
				t.Errorf("did %q", p.did)
			}
		})
	}
}

// containerOn makes an encrypted volume without a file system.
func containerOn(t *testing.T, d *inMemory) {
	t.Helper()
	h, _, err := luks.New(uuid.New(), Label, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Write(&recorder{disk: d, atSync: func() {}}); err != nil {
		t.Fatal(err)
	}
}

// TestAPlainVolumeOfANodeThatHadIt stays: to refuse it would stop a node that
// works.
func TestAPlainVolumeOfANodeThatHadIt(t *testing.T) {
	p := newFakeNode(t)
	volumeOn(p.add("sdb", 50*gib), 50*gib)
	p.claims(Record{Claim: OfSize(50 * gib), FileSystem: "ext4", Made: true})
	s, err := p.encrypting().Ensure(t.Context())
	if err != nil || s.Device != "/dev/sdb" || !slices.Equal(s.Warnings, []string{notEncrypted(Data)}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestAPowerCutWhileAnEncryptedVolumeIsMade leaves an empty disk, the mark, or the
// container.
func TestAPowerCutWhileAnEncryptedVolumeIsMade(t *testing.T) {
	const size = 64 * mib
	disk := newSparse(size)
	states := map[string]int{}
	observe := func() {
		c := ReadContent(disk, size)
		switch {
		case len(c.Evidence) == 0:
			states["empty"]++
		case c.Unfinished:
			states["marked"]++
		case c.Container != "":
			states["complete"]++
		default:
			t.Errorf("a power cut leaves %s", c)
		}
	}

	in := Container{UUID: uuid.New(), Key: []byte("key")}
	m := Maker{For: Data, Scratch: t.TempDir(), Run: func(_ context.Context, command []string) error {
		f, err := os.OpenFile(command[len(command)-1], os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytes.Repeat([]byte("file system"), 1000), 0)
		return errors.Join(err, f.Close())
	}}
	target := &recorder{disk: disk, atSync: observe}
	if err := m.makeEncrypted(t.Context(), target, size, "ext4", in); err != nil {
		t.Fatal(err)
	}
	observe()
	if states["empty"] != 1 || states["marked"] < 4 || states["complete"] < 1 {
		t.Errorf("states %v", states)
	}
}

// TestADroppedVolume is not opened by any key, and its disk is for the next one.
func TestADroppedVolume(t *testing.T) {
	const size = 64 * mib
	p := newFakeNode(t)
	disk := p.add("sdb", size)
	p.claims(Record{Claim: OfSize(size), FileSystem: "ext4"})
	file := create(t, filepath.Join(t.TempDir(), "disk"), size)
	open := func(string) (*os.File, error) { return os.OpenFile(file.Name(), os.O_RDWR, 0) }
	if err := p.encrypting().Drop(open); err != nil {
		t.Errorf("before there is a volume: %v", err)
	}

	if _, err := p.encrypting().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := make([]byte, size)
	_, _ = disk.ReadAt(all, 0)
	if _, err := file.WriteAt(all, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.encrypting().Drop(open); err != nil {
		t.Fatal(err)
	}

	after := make([]byte, size)
	_, _ = file.ReadAt(after, 0)
	clean := make([]byte, luks.DataOffset)
	copy(clean, FormatMark)
	if !bytes.Equal(after[:luks.DataOffset], clean) {
		t.Error("something of the header is left")
	}
	if c := ReadContent(file, size); !c.Unfinished || c.Container != "" {
		t.Errorf("it is %+v", c)
	}
}

// cutDisk is a disk whose power is cut: it has only the first block of the last
// write.
type cutDisk struct {
	*os.File
	writes int
}

func (d *cutDisk) WriteAt(p []byte, at int64) (int, error) {
	d.writes--
	if d.writes > 0 {
		return d.File.WriteAt(p, at)
	}
	_, err := d.File.WriteAt(p[:luks.SectorSize], at)
	return 0, errors.Join(err, errCut)
}

// TestPowerCutsOfADrop leave a container that Drop finds again, or one that no key
// opens.
func TestPowerCutsOfADrop(t *testing.T) {
	const size = luks.DataOffset + 4*mib
	secret := []byte("recovery")
	for writes := 1; ; writes++ {
		file := create(t, filepath.Join(t.TempDir(), "disk"), size)
		h, key, err := luks.New(uuid.New(), Label, rand.Reader)
		if err == nil {
			_, err = h.AddSlot(file, key, secret, luks.ForKeys(), rand.Reader)
		}
		if err == nil {
			err = h.Write(file)
		}
		if err != nil {
			t.Fatal(err)
		}

		err = dropHeader(&cutDisk{file, writes}, FormatMark)
		if c := ReadContent(file, size); err == nil && c.Unfinished {
			break
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if ReadContent(file, size).Container == h.UUID.String() {
			continue
		}
		if left, err := luks.Read(file); err == nil {
			if _, _, err := left.Open(file, secret); err == nil {
				t.Errorf("after a cut in write %d, the recovery key opens what Drop does not find", writes)
			}
		}
	}
}

// TestCryptsetupOpensAVolume with a real file system in it.
func TestCryptsetupOpensAVolume(t *testing.T) {
	for _, fileSystem := range []string{"ext4", "xfs"} {
		t.Run(fileSystem, func(t *testing.T) { cryptsetupOpens(t, fileSystem) })
	}
}

func cryptsetupOpens(t *testing.T, fileSystem string) {
	judge.Find(t, map[string]string{"ext4": "mke2fs", "xfs": "mkfs.xfs"}[fileSystem])
	const size = 400 * mib
	path := filepath.Join(t.TempDir(), "disk")
	disk := create(t, path, size)
	maker := Maker{
		For: Data,
		Open: func(node string) (Writable, error) {
			f, err := os.OpenFile(node, os.O_RDWR, 0)
			return diskFile{f}, err
		},
		Run: func(ctx context.Context, command []string) error {
			return exec.CommandContext(ctx, command[0], command[1:]...).Run()
		},
		Scratch: t.TempDir(),
	}
	in := Container{UUID: uuid.New(), Key: []byte("key")}
	choice := Choice{Action: ToFormat, Device: path, Size: size}
	if err := maker.Make(t.Context(), choice, fileSystem, 512, &in); err != nil {
		t.Fatal(err)
	}

	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, in.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	judge.Run(t, "cryptsetup", "open", "--test-passphrase", "--key-file", key, path)

	h, err := luks.Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	volumeKey, _, err := h.Open(disk, in.Key)
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(t.TempDir(), "inside")
	out := create(t, inside, h.DataSize(size))
	data := make([]byte, h.DataSize(size))
	if _, err := disk.ReadAt(data, h.DataOffset()); err != nil {
		t.Fatal(err)
	}
	decrypt(t, h.Table(path, volumeKey), data, 0)
	if _, err := out.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if c := ReadContent(out, h.DataSize(size)); c.FileSystem != fileSystem {
		t.Errorf("inside is %+v", c)
	}
	if fileSystem == "xfs" {
		judge.Run(t, "xfs_repair", "-n", inside)
	} else {
		judge.Run(t, "e2fsck", "-f", "-n", inside)
	}
}
