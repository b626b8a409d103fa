// Package osrelease reads os-release(5), the one place where an image's version
// is written: it is in the sources, in the root file system, and in the section
// .osrel of a UKI.
package osrelease

import "strings"

// Keys that Loam reads.
const (
	ImageID      = "IMAGE_ID"
	ImageVersion = "IMAGE_VERSION"

	// SecurityEpoch is the security epoch of a release; absent for 0.
	SecurityEpoch = "LOAM_SECURITY_EPOCH"
)

// Parse returns the assignments of the text, without quotes. It skips other
// lines.
func Parse(text []byte) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.Trim(line, " \t\r\n\x00"), "=")
		if ok && !strings.HasPrefix(key, "#") {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	return values
}
