package kmod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

var files = Files{
	Dep: []byte(`kernel/fs/erofs/erofs.ko.xz: kernel/lib/lz4_decompress.ko.xz kernel/lib/libcrc32c.ko.xz
kernel/lib/lz4_decompress.ko.xz:
kernel/lib/libcrc32c.ko.xz:
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio-ring.ko.xz kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio-ring.ko.xz: kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio.ko.xz:
kernel/drivers/net/e1000e.ko:
kernel/crypto/crc32c_generic.ko.xz:
`),
	Alias: []byte("# Aliases\nalias virtio:d00000002v* virtio_blk\nalias fs-erofs erofs\n" +
		"alias pci:v00008086d000010D3sv*sd*bc*sc*i* e1000e\n" +
		"alias platform:e1000e soc card e1000e\n"),
	Softdep: []byte("softdep libcrc32c pre: crc32c-generic\nsoftdep e1000e post: virtio\n"),
	Builtin: []byte("kernel/fs/ext4/ext4.ko\nkernel/drivers/nvme/host/nvme.ko\n"),
}

func parse(t *testing.T) *Index {
	t.Helper()
	x, err := Parse(files)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestOrderPutsDependenciesFirst(t *testing.T) {
	tests := []struct {
		name, module string
		want         []string
		wantErr      bool
	}{
		{
			name:   "a chain is loaded from its end",
			module: "virtio_blk",
			want: []string{
				"kernel/drivers/virtio/virtio.ko.xz", "kernel/drivers/virtio/virtio-ring.ko.xz",
				"kernel/drivers/block/virtio_blk.ko.xz"},
		},
		{
			name:   "a soft dependency comes before the module that names it",
			module: "erofs",
			want: []string{
				"kernel/crypto/crc32c_generic.ko.xz", "kernel/lib/libcrc32c.ko.xz",
				"kernel/lib/lz4_decompress.ko.xz", "kernel/fs/erofs/erofs.ko.xz"},
		},
		{name: "a built-in module needs nothing", module: "ext4"},
		{
			name:   "a dash is an underscore",
			module: "virtio-ring",
			want: []string{
				"kernel/drivers/virtio/virtio.ko.xz", "kernel/drivers/virtio/virtio-ring.ko.xz"},
		},
		{name: "an unknown module is an error", module: "zfs", wantErr: true},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(t).Order(tt.module)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSoftDependencyNamesAnAlias: Debian's arm64 kernel has CRC-32C as a
// module, and libcrc32c, which erofs needs, asks for any.
func TestSoftDependencyNamesAnAlias(t *testing.T) {
	x, err := Parse(Files{
		Dep: []byte("erofs.ko: libcrc32c.ko\nlibcrc32c.ko:\ncrc32c_generic.ko:\n" +
			"crc32c-fast.ko: simd.ko\nsimd.ko:\n"),
		Alias:   []byte("alias crypto-crc32c crc32c_generic\nalias crypto-crc32c crc32c_fast\n"),
		Softdep: []byte("softdep libcrc32c pre: crypto-crc32c crypto-none\n"),
	})
	if err != nil {
		t.Fatal(err)
	}

	want := []string{"crc32c_generic.ko", "simd.ko", "crc32c-fast.ko", "libcrc32c.ko", "erofs.ko"}
	_, texts, err := x.Subset([]string{"erofs"})
	if err != nil {
		t.Fatal(err)
	}

	small, err := Parse(texts)
	if err != nil {
		t.Fatal(err)
	}

	for _, x := range []*Index{x, small} {
		got, err := x.Order("erofs")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

func TestMatchFindsDriversByModalias(t *testing.T) {
	tests := []struct {
		modalias string
		want     []string
	}{
		{"virtio:d00000002v00001AF4", []string{"virtio_blk"}},
		{"fs-erofs", []string{"erofs"}},
		{"pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00", []string{"e1000e"}},
		{"platform:e1000e soc card", []string{"e1000e"}},
		{"pci:v0000BEEFd00000000sv0sd0bc0sc0i0", nil},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, parse(t).Match(tt.modalias)); d != "" {
			t.Errorf("%s: %s", tt.modalias, d)
		}
	}
}

func TestSubsetIsAnIndexOfItsOwn(t *testing.T) {
	got, texts, err := parse(t).Subset([]string{"erofs", "ext4", "virtio_blk"})
	if err != nil {
		t.Fatal(err)
	}

	small, err := Parse(texts)
	if err != nil {
		t.Fatal(err)
	}

	if len(got) != 7 {
		t.Errorf("%d files: %v", len(got), got)
	}
	if _, err := small.Order("e1000e"); err == nil {
		t.Error("a module left out is still known")
	}

	for _, name := range []string{"erofs", "virtio_blk", "ext4"} {
		want, _ := parse(t).Order(name)
		have, err := small.Order(name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}

	if small.Match("pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00") != nil {
		t.Error("an alias of a module left out is still there")
	}
}
