package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/status"
)

func TestVersionsOfTheRepositoryAreCompleted(t *testing.T) {
	want := []string{"2.0.0", "1.0.0"}

	for _, tt := range []struct {
		name   string
		status *status.Status
		want   []string
	}{
		{
			"a node that has read its repository",
			&status.Status{Upgrade: &status.Upgrade{Releases: want}},
			want,
		},
		{"a node that has not", &status.Status{Upgrade: &status.Upgrade{}}, nil},
		{"a node without upgrades", &status.Status{}, nil},
		{"no node", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "status.json")
			if tt.status != nil {
				has(*tt.status)(file)
			}
			if got, _ := completeVersions(file)(nil, nil, ""); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
