package main

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/image/inspect"
)

func TestInspectShowsADisk(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signed, err := trust.Sign([]byte("kind: Machine\n"), 7, key)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		disk inspect.Disk
		want []string
	}{
		{
			"as large as its table, and without a machine.yaml",
			inspect.Disk{Size: 3 << 30, DeviceSize: 3 << 30, SectorSize: 512},
			[]string{", 3072 MiB, sectors of 512 bytes\n", "\nmachine.yaml\tnone\n"},
		},
		{
			"larger than its table, with a machine.yaml",
			inspect.Disk{
				Size:       3 << 30,
				DeviceSize: 8 << 30,
				SectorSize: 512,
				Machine:    "kind: Machine\nhostname: a",
			},
			[]string{
				", 8192 MiB, of which the partition table covers 3072 MiB, sectors",
				"\nmachine.yaml\n  kind: Machine\n  hostname: a\n",
			},
		},
		{
			"with a signed machine.yaml",
			inspect.Disk{Machine: string(signed)},
			[]string{"\nmachine.yaml\tsigned, serial 7\n  kind: Machine\n"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			showImage(&out, inspect.Image{Disk: &test.disk}, false)
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s, want %q", out.String(), want)
				}
			}
		})
	}
}
