package volume

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Claim says which disk is meant. A zero field says nothing; a zero Claim means
// no disk.
type Claim struct {
	// MinSize and MaxSize are in bytes, both included.
	MinSize int64 `json:"minSize,omitempty"`
	MaxSize int64 `json:"maxSize,omitempty"`

	// Serial and Model are as sysfs has them, Path is a name in
	// /dev/disk/by-path.
	Serial string `json:"serial,omitempty"`
	Model  string `json:"model,omitempty"`
	Path   string `json:"path,omitempty"`

	// OnlyEmpty means that one of several disks that match is meant if only
	// that one is empty.
	OnlyEmpty bool `json:"onlyEmpty,omitempty"`

	// About is a size in bytes that the disk should have, more or less.
	About int64 `json:"about,omitempty"`
}

// slack is how much a disk may be smaller or larger than kubeletDataVolumeSize:
// what controllers and hypervisors keep for themselves, and round to.
const slack = 16 * mib

// OfSize is the claim that Gardener's kubeletDataVolumeSize makes: the only
// empty disk of size bytes. A disk of just that size is meant before any that
// is off by up to 16 MiB.
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

// Names reports whether the claim means the device itself, not just one of its
// kind.
func (c Claim) Names() bool { return c.Serial != "" || c.Path != "" }

// Identity reports whether what the claim says of the disk, but for its size,
// is true: a disk that has a volume may have grown.
func (c Claim) Identity(d Disk) bool {
	return (c.Serial == "" || c.Serial == d.Serial) && (c.Model == "" || c.Model == d.Model) &&
		(c.Path == "" || slices.Contains(d.Paths, c.Path))
}

// matches reports whether the claim can mean the disk. One that can be
// unplugged is meant only by serial or path: a stick that happens to be empty
// is nobody's data volume.
func (c Claim) matches(d Disk) bool {
	return c.Identity(d) && d.Size >= c.MinSize && (c.MaxSize == 0 || d.Size <= c.MaxSize) &&
		(!d.Removable || c.Names())
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

// ParseSize reads a size in bytes: a number of digits, with or without a suffix
// of Ki, Mi, Gi, Ti, Pi (powers of 1024) or k, M, G, T, P (powers of 1000), as
// Kubernetes writes it.
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

	if digits != text && !known || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size", text)
	}

	return n * unit, nil
}
