package rootfs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/device"
)

func TestParseConfig(t *testing.T) {
	const text = "# a tree\n[Match]\nArchitecture=arm64\n\n[Content]\nPackages=\n        # systemd\n" +
		"        dbus kmod\n\tudev\nMakeInitrd=no\nPackages=bash\n"
	want := map[string][]string{
		"Architecture": {"arm64"},
		"Packages":     {"dbus", "kmod", "udev", "bash"},
		"MakeInitrd":   {"no"},
	}
	if diff := cmp.Diff(want, parseConfig(text)); diff != "" {
		t.Error(diff)
	}
}

func TestPackageNames(t *testing.T) {
	for _, test := range []struct{ arch, profile, want, not string }{
		{"amd64", "cloud", "linux-image-cloud-amd64", "linux-image-cloud-arm64"},
		{"arm64", "cloud", "linux-image-cloud-arm64", "linux-image-cloud-amd64"},
		{"amd64", "metal", "linux-image-amd64", "linux-image-cloud-amd64"},
	} {
		firmware := device.List{Entries: []device.Entry{{Package: "firmware-iwlwifi"}}}
		got, err := PackageNames("../../mkosi", test.arch, test.profile, firmware)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"systemd", "firmware-iwlwifi", test.want} {
			if !slices.Contains(got, name) {
				t.Errorf("%s, %s: no %s in %v", test.arch, test.profile, name, got)
			}
		}
		if slices.Contains(got, test.not) {
			t.Errorf("%s, %s: %s", test.arch, test.profile, test.not)
		}
	}
}
