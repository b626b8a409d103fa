package volume

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Claim says which disk is meant. A zero field matches every disk; a zero Claim
// means no disk.
type Claim struct {
	// MinSize and MaxSize are in bytes, both inclusive.
	MinSize int64 `json:"minSize,omitempty"`
	MaxSize int64 `json:"maxSize,omitempty"`

	// Serial and Model are as sysfs has them, Path is a name in
	// /dev/disk/by-path.
	Serial string `json:"serial,omitempty"`
	Model  string `json:"model,omitempty"`
	Path   string `json:"path,omitempty"`

	// OnlyEmpty allows several disks to match: the only empty one among them is
	// meant.
	OnlyEmpty bool `json:"onlyEmpty,omitempty"`

	// About is the approximate size of the disk in bytes.
	About int64 `json:"about,omitempty"`
}

// slack is how much a disk may be smaller or larger than kubeletDataVolumeSize:
// controllers and hypervisors reserve some space, and round.
const slack = 16 * mib

// OfSize returns the claim for Gardener's kubeletDataVolumeSize: the only empty
// disk of size bytes. A disk of exactly that size goes before disks that differ
// by up to 16 MiB.
func OfSize(size int64) Claim {
	return Claim{
		MinSize:   max(size-slack, 1),
		MaxSize:   size + slack,
		OnlyEmpty: true,
		About:     size,
	}
}

// IsZero reports whether the claim means no disk.
func (c Claim) IsZero() bool { return c == Claim{} }

// Names reports whether the claim means one particular device, not any device
// of a kind.
func (c Claim) Names() bool { return c.Serial != "" || c.Path != "" }

// Identity reports whether the disk matches the claim, apart from its size: a
// disk that has a volume may have grown.
func (c Claim) Identity(d Disk) bool {
	return (c.Serial == "" || c.Serial == d.Serial) && (c.Model == "" || c.Model == d.Model) &&
		(c.Path == "" || slices.Contains(d.Paths, c.Path))
}

// Matches reports whether the claim can mean the disk. A removable disk, and one
// that another machine serves, is meant only by serial or path: an empty USB drive
// must not become a data volume by accident, nor the volume of a pod that the
// kubelet has attached, which other nodes may see, too.
func (c Claim) Matches(d Disk) bool {
	return c.Identity(d) && d.Size >= c.MinSize && (c.MaxSize == 0 || d.Size <= c.MaxSize) &&
		((!d.Removable && d.Network == "") || c.Names())
}

func (c Claim) String() string {
	var out []string
	for _, f := range []struct{ name, value string }{
		{"serial ", c.Serial},
		{"path ", c.Path},
		{"model ", c.Model},
	} {
		if f.value != "" {
			out = append(out, f.name+strconv.Quote(f.value))
		}
	}

	switch {
	case c.About != 0:
		out = append(out, fmt.Sprintf("about %d bytes", c.About))
	case c.MinSize != 0 && c.MaxSize != 0:
		out = append(out, fmt.Sprintf("%d to %d bytes", c.MinSize, c.MaxSize))
	case c.MinSize != 0:
		out = append(out, fmt.Sprintf("at least %d bytes", c.MinSize))
	case c.MaxSize != 0:
		out = append(out, fmt.Sprintf("at most %d bytes", c.MaxSize))
	}

	if c.OnlyEmpty {
		out = append(out, "the only empty one")
	}

	return strings.Join(out, ", ")
}

// ParseSize parses a size in bytes as Kubernetes writes it: digits, with or
// without a suffix of Ki, Mi, Gi, Ti, Pi (powers of 1024) or k, M, G, T, P
// (powers of 1000).
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "kKMGTPi")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strings.ContainsAny(digits, "+-") || n == 0 {
		return 0, fmt.Errorf("%q is not a size", text)
	}

	unit := int64(1)
	known := false
	for _, base := range []struct {
		factor int64
		names  string
	}{{1024, "Ki Mi Gi Ti Pi"}, {1000, "k M G T P"}} {
		factor := int64(1)
		for _, name := range strings.Fields(base.names) {
			factor *= base.factor
			if text[len(digits):] == name {
				unit = factor
				known = true
			}
		}
	}

	if (digits != text && !known) || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size", text)
	}

	return n * unit, nil
}
