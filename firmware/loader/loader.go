// Package loader knows systemd-boot: where firmware finds it, and which version
// a file of it is.
package loader

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/loam-os/loam/firmware/uki"
)

// Path is the loader's path on the ESP. Firmware starts it without any variable
// (UEFI 2.10, 3.5.1.1). goarch is an architecture as Go names it.
func Path(goarch string) string {
	return "EFI/BOOT/BOOT" + strings.ToUpper(suffix(goarch)) + ".EFI"
}

// Installed is the path of the loader on a Debian system, without a leading
// slash.
func Installed(goarch string) string { return dir + "systemd-boot" + suffix(goarch) + ".efi" }

// Stub is the path of the stub, with which UKIs begin, on a Debian system,
// without a leading slash.
func Stub(goarch string) string { return dir + "linux" + suffix(goarch) + ".efi.stub" }

// The recovery entry is started when there is no other: not even a bad one, as
// it is called bad itself, and sorts last. The firmware cannot count its boots,
// as it is read-only. RecoveryUKI is a copy of the system that has proven
// itself last, outside of the directory that firmware and updates write to.
const (
	RecoveryUKI   = "EFI/recovery/recovery.efi"
	RecoveryEntry = "loader/entries/recovery+0-0.conf"
	// Conf is the configuration of the loader (loader.conf(5)).
	Conf = "loader/loader.conf"
	// RecoveryText is the content of RecoveryEntry (UAPI Boot Loader
	// Specification, type #1).
	RecoveryText = "title Recovery: the system that was well last\nsort-key zz-recovery\n" +
		"efi /" + RecoveryUKI + "\n"
)

const dir = "usr/lib/systemd/boot/efi/"

func suffix(goarch string) string {
	return map[string]string{"amd64": "x64", "arm64": "aa64"}[goarch]
}

// Version reads the section .sdmagic, by which systemd's own tools know the
// loader (systemd 257, src/boot/boot.c): an error for any other program.
func Version(r io.ReaderAt) (string, error) {
	text, err := uki.ReadSection(r, ".sdmagic")
	if err != nil {
		return "", fmt.Errorf("no systemd-boot: %w", err)
	}

	m := regexp.MustCompile(`^#### LoaderInfo: systemd-boot ([^ ]+) ####`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("no systemd-boot: section .sdmagic says %.60q", text)
	}

	return string(m[1]), nil
}
