package bootentry

import (
	"cmp"
	"strings"
)

// Compare orders names as systemd-boot 257 sorts its menu, of which it boots
// the first: bad entries last, then by image ID, then the newest version first;
// of equal versions the entry with more tries left, then with fewer tries done.
// A blessed entry and a counted entry that are equal otherwise stay in the
// order of the directory.
func Compare(a, b Name) int {
	order := cmp.Or(
		cmp.Compare(toInt(a.Bad()), toInt(b.Bad())),
		strings.Compare(a.ImageID, b.ImageID),
		CompareVersions(b.Version, a.Version),
		CompareVersions(b.Arch, a.Arch),
	)
	if order != 0 || !a.Counted || !b.Counted {
		return order
	}
	return cmp.Or(cmp.Compare(b.TriesLeft, a.TriesLeft), cmp.Compare(a.TriesDone, b.TriesDone))
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
