// Package bootentry reads, writes and orders the names of UKIs in \EFI\Linux:
// ImageID_Version_Arch.efi, with the boot tries that systemd-boot counts,
// +LEFT-DONE, before ".efi" (UAPI Boot Loader Specification, "Boot counting").
package bootentry

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/loam-os/loam/hint"
)

// Name is the name of a UKI taken apart.
type Name struct {
	ImageID   string // IMAGE_ID of os-release: a-z 0-9 . -
	Version   string // IMAGE_VERSION: A-Z a-z 0-9 . -
	Arch      string // in systemd's words: "x86-64" or "arm64"
	TriesLeft int    // 0 to 9
	TriesDone int    // 0 to 9
	Counted   bool   // false: blessed, the name has no tries
}

// Arch returns the name that systemd, mkosi and boot entries have for an
// architecture of Go's (systemd.unit(5), ConditionArchitecture=).
func Arch(goarch string) string {
	if goarch == "amd64" {
		return "x86-64"
	}
	return goarch
}

// Lengths of a name with and without tries. Each takes exactly four directory
// slots of FAT, 27 to 39 characters, so that counting a try or blessing never
// makes the entry longer or shorter (image/esp tells why).
const (
	MinLength   = 27
	MaxLength   = 39
	triesLength = len("+3-0")
)

// pattern has one digit each for the tries: systemd-boot keeps the number of
// digits when it counts.
var pattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^([a-z0-9.-]+)_([A-Za-z0-9.-]+)_(x86-64|arm64)(?:\+([0-9])-([0-9]))?\.efi$`,
	)
})

// Parse takes a file name apart. A name that Format would not make is an error.
func Parse(file string) (Name, error) {
	if len(file) > MaxLength {
		return Name{}, fmt.Errorf("boot entry %.60q: %d characters, at most %d",
			file, len(file), MaxLength)
	}

	m := pattern().FindStringSubmatch(file)
	if m == nil {
		return Name{}, fmt.Errorf(
			"boot entry %q: want ImageID_Version_Arch.efi or ImageID_Version_Arch+LEFT-DONE.efi",
			file,
		)
	}

	n := Name{
		ImageID: m[1],
		Version: m[2],
		Arch:    m[3],
		Counted: m[4] != "",
	}
	if n.Counted {
		n.TriesLeft = int(m[4][0] - '0')
		n.TriesDone = int(m[5][0] - '0')
	}

	if _, err := Format(n); err != nil {
		return Name{}, err
	}

	return n, nil
}

// Format makes the file name. It is an error if the name, with or without
// tries, would not take four directory slots.
func Format(n Name) (string, error) {
	blessed := fmt.Sprintf("%s_%s_%s.efi", n.ImageID, n.Version, n.Arch)
	if !pattern().MatchString(blessed) {
		return "", fmt.Errorf("boot entry %q: image ID of a-z 0-9 . -, version of A-Z a-z 0-9 . "+
			"-, architecture x86-64 or arm64", blessed)
	}

	if len(blessed) < MinLength || len(blessed) > MaxLength-triesLength {
		return "", hint.With(
			fmt.Errorf(
				"boot entry %s: %d characters, want %d to %d",
				blessed, len(blessed), MinLength, MaxLength-triesLength,
			),
			"choose a longer or shorter IMAGE_ID or IMAGE_VERSION, so that the name "+
				"takes four FAT directory slots with and without boot tries",
		)
	}

	if !n.Counted {
		if n.TriesLeft != 0 || n.TriesDone != 0 {
			return "", fmt.Errorf("boot entry %s: not counted, but %d tries left and %d done",
				blessed, n.TriesLeft, n.TriesDone)
		}
		return blessed, nil
	}

	if min(n.TriesLeft, n.TriesDone) < 0 || max(n.TriesLeft, n.TriesDone) > 9 {
		return "", fmt.Errorf("boot entry %s: %d tries left and %d done: want 0 to 9",
			blessed, n.TriesLeft, n.TriesDone)
	}

	return fmt.Sprintf("%s+%d-%d.efi",
		strings.TrimSuffix(blessed, ".efi"), n.TriesLeft, n.TriesDone), nil
}

// Parked reports whether the entry is bad without a try. No loader leaves an
// entry like that. It is booted if all entries are bad and it is the newest.
func (n Name) Parked() bool { return n.Bad() && n.TriesDone == 0 }

// Bad reports whether all tries are used up: systemd-boot boots it only if
// there is nothing else.
func (n Name) Bad() bool { return n.Counted && n.TriesLeft == 0 }
