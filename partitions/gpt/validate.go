package gpt

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"
)

// LabelUnits is the room for a partition's label, in UTF-16 units.
const LabelUnits = 36

// Validate checks that the table can be written: sizes, bounds, overlaps,
// labels, and that no index or UUID is used twice.
func (t Table) Validate() error {
	if t.SectorSize != 512 && t.SectorSize != 4096 {
		return fmt.Errorf("partition table: sector size %d: want 512 or 4096", t.SectorSize)
	}

	if t.DiskSize%int64(t.SectorSize) != 0 || t.endUsable() <= t.firstUsable() {
		return fmt.Errorf("partition table: disk size %d: not whole sectors, or too small",
			t.DiskSize)
	}

	byStart := slices.Clone(t.Partitions)
	slices.SortFunc(byStart, func(a, b Partition) int { return cmp.Compare(a.Start, b.Start) })
	indexes := map[int]bool{}
	uuids := map[uuid.UUID]bool{}
	end := t.firstUsable()
	for _, p := range byStart {
		if err := t.validate(p); err != nil {
			return fmt.Errorf("partition %d (%q): %w", p.Index, p.Label, err)
		}

		if p.Start < end {
			return fmt.Errorf(
				"partition %d (%q): starts at byte %d, before %d where the one before it ends",
				p.Index, p.Label, p.Start, end,
			)
		}

		if indexes[p.Index] || uuids[p.UUID] {
			return fmt.Errorf("partition %d (%q): index or UUID %s used twice",
				p.Index, p.Label, p.UUID)
		}

		indexes[p.Index] = true
		uuids[p.UUID] = true
		end = p.End()
	}

	return nil
}

// validate checks one partition against the bounds of the table.
func (t Table) validate(p Partition) error {
	sector := int64(t.SectorSize)
	switch {
	case p.Index < 1 || p.Index > MaxPartitions:
		return fmt.Errorf("index outside 1 to %d", MaxPartitions)
	case p.Type == uuid.Nil || p.UUID == uuid.Nil:
		return fmt.Errorf("type or UUID is zero")
	case p.Start%sector != 0 || p.Size%sector != 0 || p.Size <= 0:
		return fmt.Errorf("start %d or size %d: not whole sectors", p.Start, p.Size)
	case p.Start < t.firstUsable() || p.Start > t.endUsable() || p.Size > t.endUsable()-p.Start:
		return fmt.Errorf("start %d, size %d: outside the usable %d to %d",
			p.Start, p.Size, t.firstUsable(), t.endUsable())
	}

	return CheckLabel(p.Label)
}

// CheckLabel says whether a partition can have the label: valid UTF-8 without
// NUL, at most 36 UTF-16 units.
func CheckLabel(label string) error {
	if !utf8.ValidString(label) {
		return fmt.Errorf("label %q: not UTF-8", label)
	}

	units := utf16.Encode([]rune(label))
	if slices.Contains(units, 0) {
		return fmt.Errorf("label %q: contains NUL", label)
	}

	if len(units) > LabelUnits {
		return fmt.Errorf("label %q: %d UTF-16 units, at most %d fit",
			label, len(units), LabelUnits)
	}

	return nil
}
