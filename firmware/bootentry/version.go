package bootentry

import (
	"cmp"
	"strings"
)

// CompareVersions orders version strings by the UAPI group's Version Format
// Specification: -1 if a is older than b, 0 if they rank the same, 1 if newer.
// Every string has a rank; characters outside the format are separators.
func CompareVersions(a, b string) int {
	for {
		a = strings.TrimLeftFunc(a, separator)
		b = strings.TrimLeftFunc(b, separator)

		// A tilde ranks before everything, even the end: 1~rc1 before 1.
		if result, again := mark(&a, &b, '~'); result != 0 {
			return result
		} else if again {
			continue
		}

		if a == "" || b == "" {
			return cmp.Compare(len(a), len(b))
		}

		again := false
		result := 0
		for _, c := range []byte("-^.") {
			result, again = mark(&a, &b, c)
			if result != 0 {
				return result
			} else if again {
				break
			}
		}
		if again {
			continue
		}

		result = compareParts(&a, &b)
		if result != 0 {
			return result
		}
	}
}

// mark compares by the mark c: a string that starts with it ranks before a
// string that does not. If both start with it, mark drops it, and again is
// true.
func mark(a, b *string, c byte) (result int, again bool) {
	inA := strings.HasPrefix(*a, string(c))
	inB := strings.HasPrefix(*b, string(c))
	if inA && inB {
		*a = (*a)[1:]
		*b = (*b)[1:]
		return 0, true
	}
	return toInt(inB) - toInt(inA), false
}

// compareParts compares and drops what both start with: numbers if either
// starts with one, else letters.
func compareParts(a, b *string) int {
	if digit(rune((*a)[0])) || digit(rune((*b)[0])) {
		x := cut(a, digit)
		y := cut(b, digit)
		if x == "" || y == "" {
			return cmp.Compare(len(x), len(y))
		}

		x = strings.TrimLeft(x, "0")
		y = strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	}
	return strings.Compare(cut(a, letter), cut(b, letter))
}

// cut takes the prefix of s whose characters are in the class.
func cut(s *string, class func(rune) bool) string {
	rest := strings.TrimLeftFunc(*s, class)
	prefix := (*s)[:len(*s)-len(rest)]
	*s = rest
	return prefix
}

func digit(r rune) bool  { return r >= '0' && r <= '9' }
func letter(r rune) bool { return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') }

func separator(r rune) bool { return !digit(r) && !letter(r) && !strings.ContainsRune("~-^.", r) }
