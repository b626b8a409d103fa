package dirent

import (
	"fmt"
	"strings"
)

// ShortName is a name of 8 and 3 characters, padded with spaces.
type ShortName [11]byte

// String is the name with its dot.
func (s ShortName) String() string {
	if s[0] == 0x05 { // stands for 0xe5, which marks a free slot
		s[0] = Free
	}
	return join83(latin(s[:8]), latin(s[8:]))
}

// WithCase is the name as the bits 3 and 4 of the entry's byte 12 say: base and
// extension in lower case.
func (s ShortName) WithCase(flags byte) string {
	base, ext, dot := strings.Cut(s.String(), ".")
	if flags&0x08 != 0 {
		base = strings.ToLower(base)
	}
	if flags&0x10 != 0 {
		ext = strings.ToLower(ext)
	}

	if !dot {
		return base
	}

	return base + "." + ext
}

func join83(base, ext string) string {
	base = strings.TrimRight(base, " ")
	ext = strings.TrimRight(ext, " ")
	if ext == "" {
		return base
	}
	return base + "." + ext
}

// latin reads each byte as a character: the code page is not known.
func latin(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

// checksum ties the parts of a long name to the short entry.
func (s ShortName) checksum() (sum byte) {
	for _, c := range s {
		sum = (sum>>1 | sum<<7) + c
	}
	return sum
}

// CheckName says whether we give a file the name: printable ASCII, without what
// FAT forbids.
func CheckName(name string) error {
	if name == "" || len(name) > 255 || strings.Trim(name, ".") == "" {
		return fmt.Errorf("name %q: empty, only dots, or longer than 255", name)
	}
	if strings.HasSuffix(name, ".") || strings.Trim(name, " ") != name {
		return fmt.Errorf("name %q: ends in a dot, or has a space at an end", name)
	}
	for _, r := range name {
		if r < ' ' || r > '~' || strings.ContainsRune(`"*/:<>?\|`, r) {
			return fmt.Errorf("name %q: %q cannot be in a FAT file name", name, r)
		}
	}
	return nil
}

// SlotsFor is the directory slots that the name takes: one if it is an
// upper-case 8.3 name, else one more for every 13 characters begun.
func SlotsFor(name string) int {
	if _, ok := exact83(name); ok {
		return 1
	}
	return 1 + (len(name)+12)/13
}

// exact83 is the name as an 8.3 name, if nothing is lost by that.
func exact83(name string) (short ShortName, ok bool) {
	base, ext, dot := strings.Cut(name, ".")
	if len(base) < 1 || len(base) > 8 || len(ext) > 3 || (dot && ext == "") ||
		shortChars(base)+shortChars(ext) != base+ext {
		return short, false
	}
	return Pad(base, ext), true
}

// shortChars is the name in upper case, without what an 8.3 name cannot have.
func shortChars(s string) string {
	return strings.Map(func(r rune) rune {
		if (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '_' || r == '-' || r == '~' {
			return r
		}
		return -1
	}, strings.ToUpper(s))
}

// Pad is the short name of a base of 8 and an extension of 3 characters at
// most.
func Pad(base, ext string) (short ShortName) {
	copy(short[:], fmt.Sprintf("%-8s%-3s", base, ext))
	return short
}

// Shorten makes the 8.3 name: the name itself if it is one, else BASE~N.EXT
// with the least N that is not used.
func Shorten(name string, used func(ShortName) bool) (ShortName, error) {
	if short, ok := exact83(name); ok {
		return short, nil
	}

	base := name
	ext := ""
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		base = name[:dot]
		ext = name[dot+1:]
	}

	base = shortChars(base)
	ext = shortChars(ext)
	for i := 1; i < 1e6; i++ {
		tail := fmt.Sprintf("~%d", i)
		short := Pad(base[:min(len(base), 8-len(tail))]+tail, ext[:min(len(ext), 3)])
		if !used(short) {
			return short, nil
		}
	}

	return ShortName{}, fmt.Errorf("name %q: no 8.3 name is left for it", name)
}
