package image

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Spec is what to build.
type Spec struct {
	Arch    string // amd64, arm64
	Profile string // cloud, metal

	// SectorSize is the sector size of the disks that the image is for: 512 or
	// 4096 bytes.
	SectorSize int
	Release    Release

	// MachineTrust has the keys that must have signed every machine.yaml, with
	// commas between them (agent/trust); "" if none.
	MachineTrust string
}

// Release is what the file os-release says: the only place of a version.
type Release struct {
	ImageID, Version string
	// Epoch is the security epoch.
	Epoch int
	// Text is the content of the file.
	Text []byte
}

// ParseRelease reads an os-release(5) file.
func ParseRelease(text []byte) (Release, error) {
	values := osrelease.Parse(text)
	r := Release{
		Text:    text,
		ImageID: values[osrelease.ImageID],
		Version: values[osrelease.ImageVersion],
	}
	if r.ImageID == "" || r.Version == "" {
		return Release{}, fault.With(fmt.Errorf("os-release: no IMAGE_ID or no IMAGE_VERSION"),
			fault.DocumentInvalid)
	}

	epoch, ok := values[osrelease.SecurityEpoch]
	if !ok {
		return r, nil
	}
	n, err := strconv.Atoi(epoch)
	if err != nil || n < 0 {
		return Release{}, fault.With(fmt.Errorf("os-release: %s=%s: want 0 or more",
			osrelease.SecurityEpoch, epoch), fault.DocumentInvalid)
	}
	r.Epoch = n
	return r, nil
}

// Architectures, profiles and sector sizes that can be built.
func Architectures() []string { return []string{"amd64", "arm64"} }
func Profiles() []string      { return []string{"cloud", Metal} }
func SectorSizes() []int      { return []int{512, 4096} }

// Metal is the profile for machines that need firmware.
const Metal = "metal"

// Validate returns an error for what cannot be built. It names the choices.
func (s Spec) Validate() error {
	if err := s.CheckTarget(); err != nil {
		return err
	}
	_, err := bootentry.Format(s.entry())
	return err
}

// CheckTarget returns an error if no image can be made for the architecture, the
// profile or the sector size.
func (s Spec) CheckTarget() error {
	if !slices.Contains(Architectures(), s.Arch) {
		return hint.With(fault.With(fmt.Errorf("architecture %q: unknown", s.Arch), fault.Usage),
			"%s", strings.Join(Architectures(), " or "))
	}

	if !slices.Contains(Profiles(), s.Profile) {
		return hint.With(fault.With(fmt.Errorf("profile %q: unknown", s.Profile), fault.Usage),
			"%s", strings.Join(Profiles(), " or "))
	}

	if !slices.Contains(SectorSizes(), s.SectorSize) {
		return fault.With(fmt.Errorf("sector size %d: want 512 or 4096", s.SectorSize), fault.Usage)
	}

	return nil
}

func (s Spec) entry() bootentry.Name {
	return bootentry.Name{
		ImageID: s.Release.ImageID,
		Version: s.Release.Version,
		Arch:    bootentry.Arch(s.Arch),
	}
}
