package image_test

import (
	"strings"
	"testing"

	"github.com/loam-os/loam/image"
)

func TestSetTrust(t *testing.T) {
	const base = "roothash=ab quiet"
	for _, test := range []struct{ name, cmdline, keys, want string }{
		{"no keys", base, "", base},
		{"a first key", base, "A", "roothash=ab loam.trust=A quiet"},
		{
			"other keys",
			"roothash=ab loam.trust=A quiet",
			"B,C",
			"roothash=ab loam.trust=B,C quiet",
		},
		{"no keys any more", "roothash=ab loam.trust=A quiet", "", base},
		{
			"a command line that goes on",
			base + " loam.from=network",
			"A",
			"roothash=ab loam.trust=A quiet loam.from=network",
		},
		{"no command line, of a build without a PXE set", "", "A", ""},
	} {
		if got := image.SetTrust(test.cmdline, test.keys); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestASecurityEpochIsInTheCommandLineAndTheBundle(t *testing.T) {
	const base = "IMAGE_ID=loam-node-os\nIMAGE_VERSION=0.1.0\n"
	for _, test := range []struct {
		name, text string
		want       int
		wrong      bool
	}{
		{name: "none", text: base},
		{name: "three", text: base + "LOAM_SECURITY_EPOCH=3\n", want: 3},
		{name: "negative", text: base + "LOAM_SECURITY_EPOCH=-1\n", wrong: true},
		{name: "no number", text: base + "LOAM_SECURITY_EPOCH=new\n", wrong: true},
	} {
		release, err := image.ParseRelease([]byte(test.text))
		if test.wrong != (err != nil) || release.Epoch != test.want {
			t.Errorf("%s: %d, %v", test.name, release.Epoch, err)
		}
		if err != nil {
			continue
		}

		p, err := image.Decide(image.Spec{
			Arch:       "amd64",
			Profile:    "cloud",
			SectorSize: 512,
			Release:    release,
		})
		if err != nil {
			t.Fatal(err)
		}
		has := strings.HasSuffix(p.Cmdline, " loam.epoch=3")
		if has != (test.want == 3) || p.About().Epoch != test.want {
			t.Errorf("%s: %q, the bundle has %d", test.name, p.Cmdline, p.About().Epoch)
		}
	}
}
