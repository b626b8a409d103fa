package enroll

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint"
)

// Machines without a file of their own share a directory, and a limit that
// bounds what a client with invented MACs can write. A machine with a file has
// a directory of that name, for maxMACs.
const (
	others    = "others"
	maxOthers = 100_000
)

// Installed records that a machine boots from its own disk, and that its token
// is used. name is the name of its file, "" without one. It returns the command
// that removes the record.
func (r *Record) Installed(name string, macs []string, about string) (undo string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir := filepath.Join(installedDir, name)
	most := maxMACs
	if name == "" {
		dir = filepath.Join(installedDir, others)
		most = maxOthers
	}

	if err := r.dir.MkdirAll(dir); err != nil {
		return "", fmt.Errorf("note that %s is installed: %w", macs[0], err)
	}

	have, err := fs.ReadDir(r.dir.Root().FS(), dir)
	if err != nil {
		return "", fmt.Errorf("list installed machines: %w", err)
	}

	if len(have)+len(macs) > most {
		return "", hint.With(
			fmt.Errorf("%d network devices of installed machines are too many", len(have)),
			"remove unused ones in %s", filepath.Join(r.dir.Root().Name(), dir),
		)
	}

	for _, mac := range macs {
		_, err := r.dir.WriteFile(filepath.Join(dir, mac), []byte(about+"\n"), 0o644)
		if err != nil {
			return "", fmt.Errorf("note that %s is installed: %w", mac, err)
		}
	}

	grants := slices.Clone(r.grants)
	for i, g := range grants {
		grants[i].Used = g.Used || g.isOf(name, macs)
	}

	return removal(r.marks(macs...)), r.save(grants)
}

// IsInstalled reports whether a machine is recorded as installed.
func (r *Record) IsInstalled(mac string) bool {
	return mac != "" && !strings.ContainsAny(mac, "/.") && len(r.marks(mac)) > 0
}

// marks are the files that record one of macs. They are read each time, as the
// operator removes them.
func (r *Record) marks(macs ...string) (files []string) {
	machines, _ := fs.ReadDir(r.dir.Root().FS(), installedDir)
	for _, m := range machines {
		for _, mac := range macs {
			file := filepath.Join(installedDir, m.Name(), mac)
			if _, err := r.dir.Root().Lstat(file); err == nil {
				files = append(files, filepath.Join(r.dir.Root().Name(), file))
			}
		}
	}
	return files
}

// marksOf are the records that the machine with the file of this name has had
// its token. It ignores records of other files, as machines may share a MAC:
// the network device that a management controller shows over USB.
func (r *Record) marksOf(name string, macs []string) []string {
	ofAnother := func(mark string) bool {
		dir := filepath.Base(filepath.Dir(mark))
		return name != "" && dir != name && dir != others
	}
	return slices.DeleteFunc(r.marks(macs...), ofAnother)
}

// removal is the command that has a machine boot from the network again.
func removal(marks []string) string {
	command := "rm"
	for _, m := range marks {
		if strings.Trim(m, safe) != "" {
			m = "'" + strings.ReplaceAll(m, "'", `'\''`) + "'"
		}
		command += " " + m
	}
	return command
}

// safe are what a shell takes as it is.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:._-"
