package inspect

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/manifest"
)

func TestCompare(t *testing.T) {
	system := func(edit func(im *Image, u *UKI)) Image {
		u := UKI{
			ImageID:  "loam",
			Version:  "1",
			Kernel:   "6.12",
			Cmdline:  "roothash=aa quiet",
			RootHash: "aa",
			Sections: []Section{{".linux", 10, "11"}, {".cmdline", 17, "12"}},
			Packages: []manifest.Package{
				{Name: "dbus", Version: "1.2", Arch: "amd64"},
				{Name: "m", Version: "v1"},
				{Name: "m", Version: "v2"},
			},
		}

		im := Image{Disk: &Layout{
			SectorSize: 512,
			Loader:     "257",
			Partitions: []Partition{{
				Index: 1,
				Role:  "esp",
				Start: 1 << 20,
				Size:  2 << 20,
			}},
		}}

		edit(&im, &u)
		im.UKIs = []UKI{u}
		return im
	}

	same := func(*Image, *UKI) {}
	for _, test := range []struct {
		name string
		edit func(im *Image, u *UKI)
		want Comparison
	}{
		{"the same", same, Comparison{}},
		{"another root", func(_ *Image, u *UKI) {
			u.RootHash = "bb"
			u.Cmdline = "roothash=bb quiet"
			u.Sections[1].SHA256 = "13"
		},
			Comparison{Restart: true, System: []Difference{{"root hash", "aa", "bb"}}}},
		{"another command line", func(_ *Image, u *UKI) { u.Cmdline += " debug" },
			Comparison{
				Restart: true,
				System:  []Difference{{"command line", "quiet", "quiet debug"}},
			}},
		{"a section more", func(_ *Image, u *UKI) {
			u.Sections = append(u.Sections, Section{".ucode", 3, "14"})
		},
			Comparison{Restart: true, System: []Difference{{"section .ucode", "", "3 bytes, 14"}}}},
		{"packages", func(_ *Image, u *UKI) {
			u.Packages = []manifest.Package{
				{Name: "dbus", Version: "1.3", Arch: "amd64"},
				{Name: "m", Version: "v2"},
				{Name: "vim", Version: "9", Arch: "all"},
			}
		},
			Comparison{Packages: []Difference{
				{"dbus amd64", "1.2", "1.3"},
				{"m", "v1, v2", "v2"},
				{"vim all", "", "9"},
			}}},
		{"a loader, which an upgrade renews beside", func(im *Image, _ *UKI) {
			im.Disk.Loader = "258"
		},
			Comparison{System: []Difference{{"systemd-boot", "257", "258"}}}},
		{"a larger ESP", func(im *Image, _ *UKI) { im.Disk.Partitions[0].Size *= 2 },
			Comparison{Layout: []Difference{
				{"partition 1", "esp, 2 MiB at 1 MiB", "esp, 4 MiB at 1 MiB"},
			}}},
		{"a UKI alone", func(im *Image, _ *UKI) { im.Disk = nil }, Comparison{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Compare(system(same), system(test.edit))
			for _, all := range []*[]Difference{&got.System, &got.Packages, &got.Layout} {
				*all = slices.Clip(*all)
				if len(*all) == 0 {
					*all = nil
				}
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}

	if _, err := Compare(Image{}, system(same)); err == nil {
		t.Error("a disk without a system is compared")
	}
}
