package enroll

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Machines without a file of their own share a directory, and a limit for what
// somebody who invents them can write. One that has a file has a directory of
// that name, for maxMACs.
const (
	others    = "others"
	maxOthers = 100_000
)

// Installed notes that a machine boots from its own disk, and that its token is
// used. name is that of its file, "" for one that has none. It returns what
// takes that back.
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
		return "", fmt.Errorf("%d network devices of installed machines are too many; hint: "+
			"remove those in %s that nobody has",
			len(have), filepath.Join(r.dir.Root().Name(), dir))
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

// IsInstalled reports whether a machine was noted as installed, and nobody has
// taken that back.
func (r *Record) IsInstalled(mac string) bool {
	return mac != "" && !strings.ContainsAny(mac, "/.") && len(r.marks(mac)) > 0
}

// marks are the files that note one of macs. They are looked for each time, as
// a person removes them.
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

// marksOf are those that say that the machine with the file of that name has
// had its token: none of another file, as machines may have a MAC in common,
// that of the network device which a management controller shows over USB.
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
