package volume

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// ErrNone says that no disk of the machine can be the volume now. Another
// disk may appear.
var ErrNone = errors.New("no data volume")

// Refusal says why no disk was taken. It wraps ErrNone, and lists each disk
// with its obstacle.
type Refusal struct {
	Why string
	// Field is the field of Facts.
	Field      string
	Claim      Claim
	Candidates []Candidate
}

// Candidate is a disk that the claim could mean, or that could be claimed.
type Candidate struct {
	Disk Disk

	// Matches means that the claim matches the disk; Obstacle is "" for a disk
	// that could be formatted.
	Matches  bool
	Obstacle string

	// Rival is the field with another claim that matches the disk, "" if none
	// does.
	Rival string

	// Offer is the line of machine.yaml that would take the disk; "" if none
	// would. OfferEmptied is the line that would if the disk were empty.
	Offer, OfferEmptied string
}

func newRefusal(why string, f Facts, c Claim) *Refusal {
	r := &Refusal{Why: why, Field: f.Field, Claim: c}
	for _, matches := range []bool{true, false} { // matching disks first
		for _, d := range f.Disks {
			if matches == (!c.IsZero() && c.Matches(d)) {
				r.Candidates = append(r.Candidates, newCandidate(d, f, matches))
			}
		}
	}
	return r
}

func newCandidate(d Disk, f Facts, matches bool) Candidate {
	c := Candidate{
		Disk:     d,
		Matches:  matches,
		Obstacle: obstacle(d, f.Disks),
		Rival:    f.rival(d),
		Offer:    offer(d, f),
	}
	if c.Obstacle == "" && matches && c.Rival != "" {
		c.Obstacle = "empty, and claimed by " + c.Rival + ", too"
	}

	if c.Offer == "" && matches && len(d.Uses) == 0 && !d.ReadOnly && !d.Content.has(Unreadable) {
		emptied := d
		emptied.Content = Content{}
		emptied.Parts = nil
		others := slices.DeleteFunc(slices.Clone(f.Disks), func(o Disk) bool {
			return o.Device == d.Device
		})
		c.OfferEmptied = offer(emptied, Facts{
			Disks:  append(others, emptied),
			Made:   f.Made,
			Field:  f.Field,
			Rivals: f.Rivals,
		})
	}

	return c
}

// Matches reports whether the claim matches a disk.
func (r *Refusal) Matches() bool {
	return slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.Matches })
}

// Unwrap returns ErrNone.
func (r *Refusal) Unwrap() error { return ErrNone }

// FaultCode implements [fault.Coder].
func (r *Refusal) FaultCode() fault.Code {
	full := func(c Candidate) bool { return c.OfferEmptied != "" }
	if slices.ContainsFunc(r.Candidates, full) {
		return fault.DiskNotEmpty
	}
	return fault.NoDisk
}

// Error names the claim, and each disk with its evidence.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("%v: %s", ErrNone, r.Why)
	if r.Field != "" && r.Field != Data.Field {
		text = fmt.Sprintf("no disk for %s: %s", r.Field, r.Why)
	}

	switch {
	case len(r.Candidates) == 0:
		return text + "; the machine has no disk at all"
	case r.Claim.IsZero():
		return text
	}

	return text + fmt.Sprintf(" (claimed: %s)\n%s", r.Claim, strings.TrimSuffix(r.List(), "\n"))
}

// withHints returns the refusal with what to write to machine.yaml, or to do
// before that.
func (r *Refusal) withHints() error {
	if r.Claim.IsZero() {
		return r
	}

	var err error = r
	if slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.Offer != "" }) {
		err = hint.With(err, "write the line of the disk that is meant to machine.yaml")
	}
	if i := slices.IndexFunc(r.Candidates, func(c Candidate) bool {
		return c.Matches && c.Rival != ""
	}); i >= 0 {
		err = hint.With(err, "write claims that match a disk each, for example by serial number: "+
			"%s and %s match %s", cmp.Or(r.Field, Data.Field), r.Candidates[i].Rival,
			r.Candidates[i].Disk.Device)
	}
	if slices.ContainsFunc(r.Candidates, func(c Candidate) bool {
		return c.OfferEmptied != "" && c.Disk.Content.Container == ""
	}) {
		err = hint.With(err, "a disk with content is never formatted: if nothing on it is needed, "+
			"empty it from another system (wipefs --all, and zeros in its first and last MiB)")
	}
	if slices.ContainsFunc(r.Candidates, func(c Candidate) bool {
		return c.Matches && c.Disk.Content.Container != ""
	}) {
		err = hint.With(err, "the key of an encrypted volume is in the state of its node: "+
			"the recovery key of that state opens it on another system (cryptsetup open)")
	}
	return err
}

// List returns a line or two for each disk.
func (r *Refusal) List() string { return r.list(false) }

// ListParts returns what [Refusal.List] does, and a line for each partition.
func (r *Refusal) ListParts() string { return r.list(true) }

func (r *Refusal) list(parts bool) string {
	var b strings.Builder
	for _, c := range r.Candidates {
		fmt.Fprintf(&b, "  %s\n", c)
		for _, p := range c.Disk.Parts {
			if parts {
				fmt.Fprintf(&b, "    %s\n", p)
			}
		}
		if c.Offer != "" {
			fmt.Fprintf(&b, "    to take it: %s\n", c.Offer)
		}
		if c.OfferEmptied != "" {
			fmt.Fprintf(&b, "    to take it once it is empty: %s\n", c.OfferEmptied)
		}
	}

	return b.String()
}

// String returns one line: what the partition is, and what it holds.
func (p Part) String() string {
	out := p.Device + ": " + FormatSize(p.Size)
	if p.Label != "" {
		out += ", " + p.Label
	}
	return out + ": " + p.Summary()
}

// String returns one line: what the disk is, whether it is claimed, and why it
// is not taken.
func (c Candidate) String() string {
	d := c.Disk
	out := []string{d.Device + ": " + FormatSize(d.Size)}
	for _, f := range []struct{ name, value string }{
		{"", cmp.Or(d.Model, "unknown model")}, {"serial ", d.Serial},
	} {
		if f.value != "" {
			out = append(out, f.name+f.value)
		}
	}

	if d.Removable {
		out = append(out, "removable")
	}
	if d.Network != "" {
		out = append(out, "over "+d.Network)
	}
	if c.Matches {
		out = append(out, "matches")
	}

	what := c.Obstacle
	inside := slices.IndexFunc(d.Parts, func(p Part) bool { return p.Content.FileSystem != "" })
	switch {
	case d.Content.Container != "":
		what = "has an encrypted " + d.Content.purpose().Name
	case d.Content.FileSystem != "":
		what = "has " + d.Content.purpose().a() + " (" + d.Content.FileSystem + ")"
	case inside >= 0:
		what = "has " + d.Parts[inside].Content.purpose().a() + " in " + d.Parts[inside].Device
	case d.Content.Unfinished:
		what = "has an unfinished " + d.Content.purpose().Name
	case what == "":
		what = "empty"
	}

	return strings.Join(out, ", ") + ": " + what
}
