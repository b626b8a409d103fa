package show

import "fmt"

// Size formats a number of bytes with three digits.
func Size(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}

	value := float64(bytes)
	unit := 0
	for ; value >= 999.5; unit++ {
		value /= 1000
	}

	digits := 0
	if value < 9.95 {
		digits = 2
	} else if value < 99.95 {
		digits = 1
	}

	return fmt.Sprintf("%.*f %cB", digits, value, " kMGTPE"[unit])
}
