package volume

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// offer returns the shortest line of machine.yaml that makes Decide take the
// disk, as a volume or to format it; "" if no line does. It verifies the line
// with Decide's rules.
func offer(d Disk, f Facts) string {
	for _, try := range []struct {
		yaml  string
		claim Claim
	}{
		{"serial: " + strconv.Quote(d.Serial), Claim{Serial: d.Serial}},
		{"path: " + strconv.Quote(first(d.Paths)), Claim{Path: first(d.Paths)}},
		{"model: " + strconv.Quote(d.Model), Claim{Model: d.Model}},
		{
			fmt.Sprintf("minSize: %q, maxSize: %q", fmt.Sprint(d.Size), fmt.Sprint(d.Size)),
			Claim{MinSize: d.Size, MaxSize: d.Size},
		},
		{"onlyEmpty: true", Claim{OnlyEmpty: true}},
	} {
		if !try.claim.IsZero() && takes(try.claim, d, f) {
			return f.line(try.yaml)
		}
	}

	return ""
}

// line returns the line of machine.yaml for a claim.
func (f Facts) line(claim string) string {
	parts := strings.Split(cmp.Or(f.Field, "dataVolume"), ".")
	return strings.Join(append(parts, claim), ": {") + strings.Repeat("}", len(parts))
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func takes(c Claim, d Disk, f Facts) bool {
	choice, why := choose(f, c)
	partition := func(p Part) bool { return p.Device == choice.Device }
	return why == "" && (choice.Device == d.Device || slices.ContainsFunc(d.Parts, partition))
}
