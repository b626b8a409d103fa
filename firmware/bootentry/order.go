package bootentry

import (
	"cmp"
	"strings"
)

// Compare orders names as systemd-boot 257 sorts its menu, of which it boots the first: bad entries last, then by image ID, then
// the newest version first; of equal ones the one with more tries left, then with fewer done.
func Compare(a, b Name) int {
	return cmp.Or(
		cmp.Compare(toInt(a.Bad()), toInt(b.Bad())),
		strings.Compare(a.ImageID, b.ImageID),
		CompareVersions(b.Version, a.Version),
		CompareVersions(b.Arch, a.Arch),
		cmp.Compare(left(b), left(a)),
		cmp.Compare(a.TriesDone, b.TriesDone),
	)
}

// left is the tries left as systemd-boot compares them: -1 without counting.
func left(n Name) int {
	if !n.Counted {
		return -1
	}
	return n.TriesLeft
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
