package disk

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/uki"
	imageesp "github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/test/firmware"
)

func TestOnlyTheRunningSystemGetsItsTryBack(t *testing.T) {
	const running = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f"
	const other = "ff112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f"
	for _, tc := range []struct {
		name, entry, hash, want string
	}{
		{
			"the loader has counted",
			"loam-node-os_0.1.0_x86-64+2-1.efi", running, "loam-node-os_0.1.0_x86-64+3-0.efi",
		},
		{
			"on its last try",
			"loam-node-os_0.1.0_x86-64+0-3.efi", running, "loam-node-os_0.1.0_x86-64+1-2.efi",
		},
		{
			"nothing was counted",
			"loam-node-os_0.1.0_x86-64+3-0.efi", running, "loam-node-os_0.1.0_x86-64+3-0.efi",
		},
		{
			"it has proved itself",
			"loam-node-os_0.1.0_x86-64.efi", running, "loam-node-os_0.1.0_x86-64.efi",
		},
		{
			"another system",
			"loam-node-os_0.1.0_x86-64+2-1.efi", other, "loam-node-os_0.1.0_x86-64+2-1.efi",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const size = 528 << 20
			disk := firmware.NewMemory(nil)
			text := uki.Section{Name: ".cmdline", Data: []byte("roothash=" + tc.hash)}
			err := imageesp.Write(io.NewOffsetWriter(disk, 0), size, firmware.SectorSize, 1,
				[]imageesp.File{
					{Path: bootentry.Dir + "/" + tc.entry, Data: firmware.PE(text)},
				})
			if err != nil {
				t.Fatal(err)
			}

			files, err := bootdir.Open(disk, size, firmware.SectorSize)
			if err != nil {
				t.Fatal(err)
			}
			if err := GiveBackTry(files, running); err != nil {
				t.Fatal(err)
			}

			all, err := entries(files)
			if err != nil || len(all) != 1 {
				t.Fatalf("%d entries, %v", len(all), err)
			}
			if diff := cmp.Diff(tc.want, all[0].File); diff != "" {
				t.Error(diff)
			}
		})
	}
}
