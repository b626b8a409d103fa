package metrics

import (
	"os"
	"strconv"
	"strings"
)

// Resident returns the resident memory of this process in bytes: the second
// field of /proc/self/statm, in pages (proc(5)). It is 0 if unknown.
func Resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}

	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
