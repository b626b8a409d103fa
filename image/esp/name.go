package esp

import (
	"fmt"
	"strings"
)

// checkName says whether a file can have the name on every firmware: printable ASCII, without what FAT forbids.
func checkName(name string) error {
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

// slots is the number of directory entries that the name takes: one if it is an upper-case 8.3 name, else one more for every 13
// characters begun.
func (n *node) slots() int {
	if _, ok := exact83(n.name); ok {
		return 1
	}
	return 1 + (len(n.name)+12)/13
}

// exact83 is the name as an 8.3 name, if nothing is lost by that.
func exact83(name string) (short [11]byte, ok bool) {
	base, ext, dot := strings.Cut(name, ".")
	if len(base) < 1 || len(base) > 8 || len(ext) > 3 || dot && ext == "" || shortChars(base)+shortChars(ext) != base+ext {
		return short, false
	}
	return pad83(base, ext), true
}

// shortChars is the name in upper case, without what an 8.3 name cannot have.
func shortChars(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '~' {
			return r
		}
		return -1
	}, strings.ToUpper(s))
}

func pad83(base, ext string) (short [11]byte) {
	copy(short[:], fmt.Sprintf("%-8s%-3s", base, ext))
	return short
}

// nameChildren gives every entry of the directory its 8.3 name: its own where it is one, else BASE~N.EXT with the least free N.
func (n *node) nameChildren() error {
	used := map[[11]byte]bool{}
	for _, c := range n.children {
		if short, ok := exact83(c.name); ok {
			c.short, used[short] = short, true
		}
	}
	for _, c := range n.children {
		if c.short != ([11]byte{}) {
			continue
		}
		base, ext := c.name, ""
		if dot := strings.LastIndexByte(c.name, '.'); dot > 0 {
			base, ext = c.name[:dot], c.name[dot+1:]
		}
		base, ext = shortChars(base), shortChars(ext)
		for i := 1; ; i++ {
			tail := fmt.Sprintf("~%d", i)
			if len(tail) > 7 {
				return fmt.Errorf("directory %q: no 8.3 name left for %q", n.name, c.name)
			}
			c.short = pad83(base[:min(len(base), 8-len(tail))]+tail, ext[:min(len(ext), 3)])
			if !used[c.short] {
				break
			}
		}
		used[c.short] = true
	}
	return nil
}
