package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/loam-os/loam/image/repository"
)

// Waves are the waves of a release in a repository.
type Waves struct {
	// ImageID is the image of which it is a release.
	ImageID string `json:"imageID"`
	// Version is the version of the release.
	Version string `json:"version"`
	// Arch is the architecture, "amd64" or "arm64".
	Arch string `json:"arch"`
	// Rollout has the waves, the first one first; none if the release reaches all
	// machines at once.
	Rollout []repository.Wave `json:"rollout"`
}

// NewWaves describes the waves of releases.
func NewWaves(releases []repository.Release) []Waves {
	all := []Waves{}
	for _, r := range releases {
		all = append(all, Waves{
			ImageID: r.ImageID,
			Version: r.Version,
			Arch:    r.Arch,
			Rollout: append([]repository.Wave{}, r.Waves...),
		})
	}
	return all
}

// Text is a line for people.
func (w Waves) Text() string {
	parts := []string{"all machines at once"}
	if len(w.Rollout) > 0 {
		parts = nil
	}
	for _, wave := range w.Rollout {
		parts = append(parts, fmt.Sprintf("%d %% from %s", wave.Share, wave.After.Format(time.RFC3339)))
	}
	return fmt.Sprintf("%s %s, %s: %s\n", w.ImageID, w.Version, w.Arch, strings.Join(parts, ", "))
}
