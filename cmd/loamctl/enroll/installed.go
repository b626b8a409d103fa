package enroll

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxInstalled bounds what somebody who invents machines can write.
const maxInstalled = 100_000

// Installed notes that a machine boots from its own disk, and that its token is used. It returns what takes that back.
func (r *Record) Installed(macs []string, about string) (undo string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err := os.ReadDir(filepath.Join(r.dir.Root().Name(), installedDir))
	if err != nil {
		return "", fmt.Errorf("list installed machines: %w", err)
	}
	if len(have)+len(macs) > maxInstalled {
		return "", fmt.Errorf("%d network devices of installed machines are too many", len(have))
	}
	for _, mac := range macs {
		if _, err := r.dir.WriteFile(filepath.Join(installedDir, mac), []byte(about+"\n"), 0o644); err != nil {
			return "", fmt.Errorf("note that %s is installed: %w", mac, err)
		}
	}
	grants := slices.Clone(r.grants)
	for i, g := range grants {
		grants[i].Used = g.Used || g.has(macs)
	}
	return r.undo(macs), r.save(grants)
}

// IsInstalled reports whether a machine was noted as installed, and nobody has taken that back: it reads the
// directory, as a person removes files there.
func (r *Record) IsInstalled(mac string) bool {
	if mac == "" || strings.ContainsAny(mac, "/.") {
		return false
	}
	_, err := r.dir.Root().Lstat(filepath.Join(installedDir, mac))
	return err == nil
}

// undo is the command that has a machine boot from the network again.
func (r *Record) undo(macs []string) string {
	words := []string{"rm"}
	for _, mac := range macs {
		words = append(words, filepath.Join(r.dir.Root().Name(), installedDir, mac))
	}
	return strings.Join(words, " ")
}
