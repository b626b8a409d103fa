package fakesystemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// unitDir is where unit files and their links are.
const unitDir = "/etc/systemd/system"

// linkChange is what EnableUnitFiles and DisableUnitFiles answer for each link
// (org.freedesktop.systemd1(5)): "symlink" or "unlink", the link, and its
// target.
type linkChange struct{ Type, Link, Target string }

// enable makes the links that the [Install] sections of the unit files ask for.
// It reports whether any unit file has the section.
func (m *Manager) enable(names []string) (bool, []linkChange, error) {
	installs := false
	changes := []linkChange{}
	for _, name := range names {
		links, err := m.installLinks(name)
		if err != nil {
			return false, nil, err
		}

		installs = installs || len(links) > 0

		for _, link := range links {
			change := linkChange{
				Type:   "symlink",
				Link:   link,
				Target: path.Join(unitDir, name),
			}

			err := m.link(change)
			if errors.Is(err, fs.ErrExist) {
				continue
			}

			if err != nil {
				return false, nil, err
			}

			changes = append(changes, change)
		}
	}

	m.tellLinks(changes)
	return installs, changes, nil
}

// disable removes the links that enable makes.
func (m *Manager) disable(names []string) ([]linkChange, error) {
	changes := []linkChange{}
	for _, name := range names {
		links, err := m.installLinks(name)
		if err != nil {
			return nil, err
		}

		for _, link := range links {
			err := m.root.Remove(strings.TrimPrefix(link, "/"))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			changes = append(changes, linkChange{
				Type: "unlink",
				Link: link,
			})
		}
	}

	m.tellLinks(changes)
	return changes, nil
}

// installLinks returns the links that WantedBy= and RequiredBy= of the unit ask
// for.
func (m *Manager) installLinks(name string) ([]string, error) {
	text, err := m.root.ReadFile(strings.TrimPrefix(path.Join(unitDir, name), "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure("NoSuchUnit", "Unit %s does not exist", name)
	}

	if err != nil {
		return nil, fmt.Errorf("fake systemd: %w", err)
	}

	var links []string
	for line := range strings.Lines(string(text)) {
		key, targets, _ := strings.Cut(line, "=")
		suffix := map[string]string{
			"WantedBy":   ".wants",
			"RequiredBy": ".requires",
		}[key]
		if suffix == "" {
			continue
		}
		for target := range strings.FieldsSeq(targets) {
			links = append(links, path.Join(unitDir, target+suffix, name))
		}
	}

	return links, nil
}

func (m *Manager) link(c linkChange) error {
	at := strings.TrimPrefix(c.Link, "/")
	if err := m.root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	return m.root.Symlink(c.Target, at)
}

func (m *Manager) tellLinks(changes []linkChange) {
	if len(changes) > 0 {
		m.emit(managerPath, managerInterface+".UnitFilesChanged")
	}
}
