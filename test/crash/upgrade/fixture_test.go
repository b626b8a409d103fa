package upgrade_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/firmware"
)

const (
	imageID  = "loam-node-os"
	arch     = "amd64"
	rootSize = 24 * verity.BlockSize
)

// release is a small system, and its bundle.
type release struct {
	upgrade.System
	root, verity, signature, uki []byte
	index                        bundle.Index
	pack                         []byte
}

// newRelease makes a release whose root shares its first half with the roots of
// other versions.
func newRelease(t testing.TB, version string) release {
	t.Helper()
	same := rand.New(rand.NewPCG(1, 1))
	own := rand.New(rand.NewPCG(2, uint64(version[0])))
	r := release{root: make([]byte, rootSize)}
	for i := range r.root {
		if from := same; i >= rootSize/2 {
			r.root[i] = byte(own.Uint32())
		} else {
			r.root[i] = byte(from.Uint32())
		}
	}

	tree := firmware.NewMemory(nil)
	hash, size, err := verity.Build(bytes.NewReader(r.root), rootSize, tree,
		verity.Params{UUID: uuid.NewSHA1(uuid.Nil, []byte(version))})
	if err != nil {
		t.Fatal(err)
	}

	r.verity = make([]byte, size)
	if _, err := tree.ReadAt(r.verity, 0); err != nil {
		t.Fatal(err)
	}

	r.System = upgrade.System{Version: version, RootHash: hex.EncodeToString(hash[:])}
	signature := verity.NewSignature(hash, []byte("who"), []byte(version))
	r.signature, err = signature.Encode()
	if err != nil {
		t.Fatal(err)
	}

	r.uki = smallUKI("roothash="+r.RootHash, "IMAGE_VERSION="+version+"\n", own)
	source := func(b []byte) bundle.Source {
		return bundle.Source{ReaderAt: bytes.NewReader(b), Size: int64(len(b))}
	}

	var pack bytes.Buffer
	r.index, err = bundle.Write(&pack, bundle.Sources{
		ImageID:   imageID,
		Version:   version,
		Arch:      arch,
		Profile:   "cloud",
		RootHash:  r.RootHash,
		Signature: &signature,
		Root:      source(r.root),
		Verity:    source(r.verity),
		UKI:       source(r.uki),
	})
	if err != nil {
		t.Fatal(err)
	}

	r.pack = pack.Bytes()
	return r
}

// smallUKI is a PE file with a command line, an os-release and something else.
func smallUKI(cmdline, release string, random *rand.Rand) []byte {
	filler := make([]byte, 20000)
	for i := range filler {
		filler[i] = byte(random.Uint32())
	}
	return firmware.PE(uki.Section{Name: ".linux", Data: filler},
		uki.Section{
			Name: ".osrel",
			Data: []byte(release),
		}, uki.Section{Name: ".cmdline", Data: []byte(cmdline)})
}

// fixture is a machine's disk with one system, and bundles of others.
type fixture struct {
	table    gpt.Table
	releases []release
}

// newFixture lays out a disk as an image has it, but for the sizes of slots.
func newFixture(t testing.TB, versions ...string) (fixture, firmware.Sectors) {
	t.Helper()
	var p fixture
	for _, v := range versions {
		p.releases = append(p.releases, newRelease(t, v))
	}

	first := p.releases[0]
	hash, err := verity.ParseRootHash(first.RootHash)
	if err != nil {
		t.Fatal(err)
	}

	p.table = gpt.Table{DiskGUID: uuid.NewSHA1(uuid.Nil, []byte("disk")), SectorSize: sector}
	at := int64(gpt.Alignment)
	for i, d := range []struct {
		role partitions.Role
		size int64
	}{
		{partitions.ESP, 528 << 20}, {partitions.RootVeritySig, 1 << 20},
		{partitions.RootVerity, 1 << 20}, {partitions.Root, 1 << 20},
		{partitions.RootVeritySig, 1 << 20}, {partitions.RootVerity, 1 << 20},
		{partitions.Root, 1 << 20}, {partitions.State, 1 << 20},
	} {
		p.table.Partitions = append(p.table.Partitions, gpt.Partition{
			Index: i + 1,
			Type:  partitions.TypeUUID(d.role, arch),
			UUID:  uuid.NewSHA1(uuid.Nil, []byte{byte(i)}),
			Label: string(d.role),
			Start: at,
			Size:  d.size,
		})
		at += d.size
	}

	p.table.DiskSize = at + gpt.Alignment
	slots, err := partitions.Slots(p.table, arch)
	if err != nil {
		t.Fatal(err)
	}

	p.table = slots[1].Empty(slots[0].Seal(p.table, arch, hash, imageID+"_"+first.Version, true),
		arch)
	disk := firmware.NewMemory(nil)
	if err := p.table.Create(disk); err != nil {
		t.Fatal(err)
	}

	name, err := bootentry.Format(bootentry.Name{
		ImageID: imageID,
		Version: first.Version,
		Arch:    "x86-64",
	})
	if err != nil {
		t.Fatal(err)
	}

	part := p.table.Partitions[0]
	err = esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, sector, 1,
		[]esp.File{
			{Path: bootentry.Dir + "/" + name, Data: first.uki},
			{Path: loader.Path(arch), Data: firmware.SystemdBoot("257.1")},
			{Path: loader.RecoveryUKI, Data: first.uki},
			{Path: loader.RecoveryEntry, Data: []byte(loader.RecoveryText), ReadOnly: true},
		})
	if err != nil {
		t.Fatal(err)
	}

	for index, content := range map[int][]byte{
		slots[0].Sig:    first.signature,
		slots[0].Verity: first.verity,
		slots[0].Root:   first.root,
	} {
		if _, err := disk.WriteAt(content, p.table.Partitions[index-1].Start); err != nil {
			t.Fatal(err)
		}
	}

	return p, disk.Over
}

// upgrader is one on a disk on which a system runs.
func (p fixture) upgrader(r *recorder, running upgrade.System) *upgrade.Upgrader {
	return p.upgraderOn(r, r, running)
}

// upgraderOn is one on any disk, with its files.
func (p fixture) upgraderOn(
	whole device.Device, files upgrade.Records, running upgrade.System,
) *upgrade.Upgrader {
	entry, _ := bootentry.Format(bootentry.Name{
		ImageID:   imageID,
		Version:   running.Version,
		Arch:      "x86-64",
		Counted:   true,
		TriesLeft: upgrade.Tries,
	})

	return &upgrade.Upgrader{
		Disk: disk.Disk{
			Arch:       arch,
			Size:       p.table.DiskSize,
			SectorSize: sector,
			Whole:      whole,
			Partitions: sections{whole},
		},
		Records: files,
		Boot:    upgrade.Boot{Running: running, ImageID: imageID, Entry: entry},
		Host: &node{
			health: upgrade.Health{"all": {State: upgrade.Well}},
			loader: firmware.SystemdBoot(loaders[running.Version]),
		},
		Sys: fstest.MapFS{},
		Now: func() time.Time { return time.Unix(1e9, 0) },
		Log: zap.NewNop(),
	}
}

// target is the slot that does not run.
func (p fixture) target(
	disk firmware.Disk, running upgrade.System,
) (gpt.Table, partitions.Slot, error) {
	table, err := gpt.Read(disk, p.table.DiskSize, sector)
	if err != nil {
		return table, partitions.Slot{}, err
	}

	slots, err := partitions.Slots(table, arch)
	if err != nil {
		return table, partitions.Slot{}, err
	}

	for i, s := range slots {
		if hash, ok := s.Holds(table, arch); ok && hex.EncodeToString(hash[:]) == running.RootHash {
			return table, slots[1-i], nil
		}
	}

	return table, partitions.Slot{}, fmt.Errorf("no slot holds %s", running.Version)
}

// onESP calls do with the file system of the ESP.
func (p fixture) onESP(disk device.Device, do func(files *fat.FS) error) error {
	part := p.table.Partitions[0]
	files, err := bootdir.Open(section{disk, part.Start, part.End()}, part.Size, sector)
	if err != nil {
		return err
	}
	return do(files)
}

// loaders are the versions of the loaders that come with versions of the
// system.
var loaders = map[string]string{
	"1.0.0": "257.1",
	"2.0.0": "257.2-1~deb13u1",
	"3.0.0": "257.10",
	"4.0.0": "257.11",
}

// errPanics is the end of a boot.
var errPanics = errors.New("the kernel panics")

// pack returns the pack of a version.
func (p fixture) pack(version string) fill.Pack {
	for _, r := range p.releases {
		if r.Version == version {
			return packed(r.pack)
		}
	}
	return noPack{}
}

// noPack is a pack that cannot be reached.
type noPack struct{}

func (noPack) Range(context.Context, int64, int64) (io.ReadCloser, error) {
	return nil, errors.New("unplugged")
}

type packed []byte

func (p packed) Range(_ context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off+n > int64(len(p)) {
		return nil, fmt.Errorf("range %d+%d of %d", off, n, len(p))
	}
	return io.NopCloser(bytes.NewReader(p[off : off+n])), nil
}
