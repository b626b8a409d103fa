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
// a directory of that name, for maxMACs. Reports of other MACs have one for all
// machines.
const (
	others     = "others"
	maxOthers  = 100_000
	reports    = "reports"
	maxReports = 4096
)

// Machine is a machine that says that it is installed.
type Machine struct {
	// MACs is what it says that it has. LinkMAC is the one that the server's own
	// link knows it by, "" if that is unknown.
	MACs    []string
	LinkMAC string

	// Serial and UUID are what it says that it is.
	Serial, UUID string
}

// own returns the MACs that nothing says are another machine's.
func (m Machine) own() []string {
	if m.LinkMAC == "" {
		return m.MACs
	}
	return []string{m.LinkMAC}
}

// aboutFormat is the text of a mark.
const aboutFormat = "serial %q, uuid %q\n"

func (m Machine) about() []byte { return fmt.Appendf(nil, aboutFormat, m.Serial, m.UUID) }

// Installed records that a machine boots from its own disk, and that its token
// is used. name is the name of its file, "" without one. It returns the command
// that removes the record.
//
// A MAC beside the one of the link may be another machine's. It is recorded as a
// report, which counts only for a machine whose firmware says the UUID that this
// one has said.
func (r *Record) Installed(name string, m Machine) (undo string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir := filepath.Join(installedDir, name)
	most := maxMACs
	if name == "" {
		dir = filepath.Join(installedDir, others)
		most = maxOthers
	}

	own := m.own()
	if err := r.write(dir, own, most, m.about()); err != nil {
		return "", err
	}

	grants := slices.Clone(r.grants)
	for i, g := range grants {
		grants[i].Used = g.Used || g.isOf(name, own)
	}
	if err := r.save(grants); err != nil {
		return "", err
	}

	var reported []string
	for _, mac := range m.MACs {
		if !slices.Contains(own, mac) {
			reported = append(reported, reportName(mac, m.LinkMAC))
		}
	}
	if len(reported) > 0 {
		err = r.write(filepath.Join(installedDir, reports), reported, maxReports, m.about())
	}

	// What it said when it asked by another network device goes, too, but no mark of
	// another machine.
	marks := r.marks(own...)
	for _, mark := range append(r.marks(m.MACs...), r.reports(m.MACs...)...) {
		if !slices.Contains(marks, mark) && r.aboutOf(mark) == string(m.about()) {
			marks = append(marks, mark)
		}
	}
	return removal(marks), err
}

// aboutOf returns the text of a mark, "" if it cannot be read.
func (r *Record) aboutOf(mark string) string {
	name, err := filepath.Rel(r.dir.Root().Name(), mark)
	if err != nil {
		return ""
	}
	text, err := r.dir.Root().ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}

// write writes files with a text into a directory that has most at most.
func (r *Record) write(dir string, names []string, most int, text []byte) error {
	if err := r.dir.MkdirAll(dir); err != nil {
		return fmt.Errorf("note that %s is installed: %w", names[0], err)
	}

	have, err := fs.ReadDir(r.dir.Root().FS(), dir)
	if err != nil {
		return fmt.Errorf("list installed machines: %w", err)
	}
	if len(have)+len(names) > most {
		return hint.With(
			fmt.Errorf("%d network devices of installed machines are too many", len(have)),
			"remove unused ones in %s", filepath.Join(r.dir.Root().Name(), dir),
		)
	}

	for _, name := range names {
		if _, err := r.dir.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("note that %s is installed: %w", name, err)
		}
	}
	return nil
}

// reportName is the file of a report of a MAC by the machine with the MAC link: each
// machine has its own, so none replaces what another one has said.
func reportName(mac, link string) string { return mac + "," + link }

// reports are the files of reports of one of macs.
func (r *Record) reports(macs ...string) (files []string) {
	all, _ := fs.ReadDir(r.dir.Root().FS(), filepath.Join(installedDir, reports))
	for _, file := range all {
		if mac, _, _ := strings.Cut(file.Name(), ","); slices.Contains(macs, mac) {
			files = append(files,
				filepath.Join(r.dir.Root().Name(), installedDir, reports, file.Name()))
		}
	}
	return files
}

// IsInstalled reports whether a machine is recorded as installed. uuids is what its
// firmware says of its UUID, nil for nothing.
func (r *Record) IsInstalled(mac string, uuids []string) bool {
	if mac == "" || strings.ContainsAny(mac, "/.") {
		return false
	}
	return len(r.marks(mac)) > 0 || slices.ContainsFunc(r.reports(mac), func(file string) bool {
		var serial, uuid string
		_, err := fmt.Sscanf(r.aboutOf(file), aboutFormat, &serial, &uuid)
		return err == nil && slices.Contains(uuids, uuid)
	})
}

// marks are the files that record one of macs, without reports. They are read each
// time, as the operator removes them.
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
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:._,-"
