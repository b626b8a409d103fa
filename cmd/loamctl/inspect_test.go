package main

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

func TestInspectShowsADisk(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signed, err := trust.Sign([]byte("kind: Machine\n"), 7, key)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		disk inspect.Layout
		want []string
	}{
		{
			"as large as its table, and without a machine.yaml",
			inspect.Layout{Size: 3 << 30, DeviceSize: 3 << 30, SectorSize: 512},
			[]string{", 3072 MiB, sectors of 512 bytes\n", "\nmachine.yaml\tnone\n"},
		},
		{
			"larger than its table, with a machine.yaml",
			inspect.Layout{
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
			inspect.Layout{Machine: string(signed)},
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

func TestInspectHidesSecrets(t *testing.T) {
	const text = "kind: Machine\nproxy: {url: 'http://ada:s3cret@192.0.2.1:3128'}\n"
	const shown = "kind: Machine\nproxy: {url: 'http://ada:xxxxx@192.0.2.1:3128'}\n"
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	sign := func(text string) string {
		signed, err := trust.Sign([]byte(text), 7, key)
		if err != nil {
			t.Fatal(err)
		}
		return string(signed)
	}
	harmless := sign("kind: Machine\n")

	for _, row := range []struct{ name, machine, want string }{
		{"none", "", ""},
		{"without secrets", "kind:  Machine\n", "kind:  Machine\n"},
		{"signed, without secrets", harmless, harmless},
		{"with a password", text, shown},
		{"signed, with a password", sign(text), "# signed, serial 7\n" + shown},
		{
			"damaged", "proxy: {url: http://ada:s3cret@a",
			"# not shown, as it may have secrets: machine.yaml: yaml: line 1: did not find expected " +
				"',' or '}'\n",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			im := inspect.Image{Disk: &inspect.Layout{Machine: row.machine}}
			hideSecrets(&im)
			if diff := cmp.Diff(row.want, im.Disk.Machine); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestInspectPrintsJSON also with the flag of earlier versions.
func TestInspectPrintsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.raw")
	table, err := writeDisk(file, "kind: Machine\n")
	if err != nil {
		t.Fatal(err)
	}
	part := table.Partitions[0]

	want := inspect.Image{
		File:   file,
		Format: "raw",
		Disk: &inspect.Layout{
			GUID:       table.DiskGUID,
			Size:       table.DiskSize,
			DeviceSize: table.DiskSize,
			SectorSize: 512,
			Partitions: []inspect.Partition{{
				Index: 1,
				Role:  partitions.ESP,
				Label: "esp",
				UUID:  part.UUID,
				Start: part.Start,
				Size:  part.Size,
			}},
			Machine: "kind: Machine\n",
		},
	}
	for _, flags := range [][]string{{"-o", "json"}, {"--json"}} {
		out, err := loamctl(t, append([]string{"inspect", file}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}

		// The warning of an old flag is not on standard output of the program.
		_, object, _ := strings.Cut(out, "{")
		var have inspect.Image
		if err := json.Unmarshal([]byte("{"+object), &have); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%q (-want +got):\n%s", flags, diff)
		}
	}
}

// writeDisk writes a disk image that has nothing but an ESP with a machine.yaml.
func writeDisk(file, machine string) (gpt.Table, error) {
	part := gpt.Partition{
		Index: 1,
		Type:  partitions.TypeUUID(partitions.ESP, "amd64"),
		UUID:  uuid.MustParse("11111111-1111-4111-8111-111111111111"),
		Label: "esp",
		Start: gpt.Alignment,
		Size:  528 << 20,
	}
	table := gpt.Table{
		DiskGUID:   uuid.MustParse("22222222-2222-4222-8222-222222222222"),
		SectorSize: 512,
		DiskSize:   part.End() + gpt.Alignment,
		Partitions: []gpt.Partition{part},
	}

	f, err := os.Create(file)
	if err != nil {
		return table, err
	}
	return table, errors.Join(
		f.Truncate(table.DiskSize),
		table.Create(f),
		esp.Write(io.NewOffsetWriter(f, part.Start), part.Size, 512, 1,
			[]esp.File{{Path: partitions.MachineFile, Data: []byte(machine)}}),
		f.Close(),
	)
}
