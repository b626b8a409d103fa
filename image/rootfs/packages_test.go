package rootfs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/manifest"
)

func TestParsePackages(t *testing.T) {
	got, err := parsePackages([]byte(`{"manifest_version":1,"config":{"name":"tree"},"packages":[
		{"type":"deb","name":"bash","version":"5.2","architecture":"amd64"},
		{"type":"deb","name":"loam-init","version":"1","architecture":"all"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []manifest.Package{{Name: "bash", Version: "5.2", Arch: "amd64"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParsePackagesRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"what is no JSON":         "Package: bash",
		"a list without packages": `{"packages":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parsePackages([]byte(text)); err == nil {
				t.Errorf("packages %v, want an error", got)
			}
		})
	}
}
