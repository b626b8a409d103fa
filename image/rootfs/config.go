package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/device"
)

// PackageNames returns the packages that the mkosi configuration in the
// directory config asks for, and the packages of the firmware, without their
// dependencies.
func PackageNames(config, arch, profile string, firmware device.List) ([]string, error) {
	files := []string{filepath.Join(config, "mkosi.conf")}
	more, err := filepath.Glob(
		filepath.Join(config, "mkosi.profiles", profile, "mkosi.conf.d/*.conf"))
	if err != nil {
		return nil, err
	}

	names := firmware.Packages()
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}

		settings := parseConfig(string(text))
		if want := settings["Architecture"]; len(want) > 0 && want[0] != bootentry.Arch(arch) {
			continue
		}
		names = append(names, settings["Packages"]...)
	}

	if len(names) == 0 {
		return nil, fmt.Errorf("%s: asks for no package", config)
	}

	return names, nil
}

// parseConfig reads the settings of a file of mkosi.conf(5), each a list of
// words: a line that begins with a space goes on with the line before it.
func parseConfig(text string) map[string][]string {
	settings := map[string][]string{}
	key := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == '[' {
			continue
		}

		if line[0] != ' ' && line[0] != '\t' {
			name, value, _ := strings.Cut(trimmed, "=")
			key = name
			trimmed = value
		}
		settings[key] = append(settings[key], strings.Fields(trimmed)...)
	}
	return settings
}
