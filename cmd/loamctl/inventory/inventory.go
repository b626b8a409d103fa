// Package inventory is a directory with the machine.yaml of each machine of a site, in a file that
// is called by its MAC (52:54:00:12:34:56.yaml), serial number (serial-ABC123.yaml) or UUID (uuid-….yaml).
//
// A machine's file is looked up again each time that it asks. The package also
// says for which machines, known by DHCP only, there may be a file.
package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/pxe"
)

// Default is the file of the machines that have none.
const Default = "default.yaml"

// Placeholder stands for the join token in a machine.yaml, as in what Gardener
// sends.
const Placeholder = "<<BOOTSTRAP_TOKEN>>"

// sample is a token for a document that is only looked at.
const sample = "aaaaaa.aaaaaaaaaaaaaaaa"

// Entry is a file of the inventory.
type Entry struct {
	Name string
	// Installs: it has the machine put the system on a disk.
	Installs bool
	text     string
}

// Own reports whether the file is for one machine alone.
func (e Entry) Own() bool { return e.Name != Default }

// MAC returns the MAC that the file is called by, "" if it is called by something
// else.
func (e Entry) MAC() string {
	mac, err := net.ParseMAC(strings.TrimSuffix(e.Name, ".yaml"))
	if err != nil {
		return ""
	}
	return mac.String()
}

// WantsToken reports whether it has a place for a join token.
func (e Entry) WantsToken() bool { return strings.Contains(e.text, Placeholder) }

// With is the document with this token.
func (e Entry) With(token string) []byte {
	return []byte(strings.ReplaceAll(e.text, Placeholder, token))
}

// Sample returns the text of a machine.yaml with a join token in the place of
// [Placeholder], so that it can be checked.
func Sample(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(Placeholder), []byte(sample))
}

// Check reads all of the inventory, so that a mistake is not found when a
// machine asks. It returns the entries.
func Check(root *os.Root) ([]Entry, error) {
	names, errs, err := byIdentity(root)
	if err != nil {
		return nil, err
	}

	var entries []Entry
	for _, same := range names {
		if len(same) > 1 {
			errs = append(errs, hint.With(
				fmt.Errorf("%s are for the same machine", strings.Join(same, " and ")),
				"keep one of them",
			))
		}
		for _, name := range same {
			e, err := read(root, name)
			entries = append(entries, e)
			errs = append(errs, err)
		}
	}

	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, errors.Join(errs...)
}

// Find returns the file of a machine with these MACs, serial number and UUID,
// "" if unknown, else Default. The error is pxe.ErrNone if there is neither.
// Find reads the files each time, so a change counts at once, and a mistake in
// another machine's file does not.
func Find(root *os.Root, macs []string, serial, id string) (Entry, error) {
	names, _, err := byIdentity(root)
	if err != nil {
		return Entry{}, err
	}

	var found []string
	for _, key := range append(slices.Clone(macs), "serial-"+serial, "uuid-"+strings.ToLower(id)) {
		found = append(found, names[key]...)
	}

	slices.Sort(found)
	found = slices.Compact(found)
	switch {
	case len(found) > 1:
		return Entry{}, hint.With(
			fmt.Errorf("%s are all for this machine", strings.Join(found, " and ")),
			"keep one of them",
		)
	case len(found) == 1:
		return read(root, found[0])
	case names[Default] != nil:
		return read(root, Default)
	}

	return Entry{}, hint.With(fmt.Errorf("%w for %s", pxe.ErrNone, macs[0]),
		"write %s.yaml, or %s for all that have none", macs[0], Default)
}

// Admit returns nil if there may be a file for a machine of which this MAC and
// these UUIDs are known, nil if it does not say its UUID. Its serial number is
// not known: each that there is a file for may be its own.
func Admit(root *os.Root, mac string, uuids []string) error {
	names, _, err := byIdentity(root)
	for key := range names {
		id, isUUID := strings.CutPrefix(key, "uuid-")
		if key == Default || key == mac || strings.HasPrefix(key, "serial-") ||
			(isUUID && (uuids == nil || slices.Contains(uuids, id))) {
			return nil
		}
	}
	if err == nil {
		err = hint.With(errors.New("there is no machine.yaml for it"), "write %s.yaml", mac)
	}
	return err
}

// byIdentity maps each identity to the files that have it in their names;
// Default is its own identity. strays are the faults of files that no machine
// can have.
func byIdentity(root *os.Root) (names map[string][]string, strays []error, err error) {
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, fmt.Errorf("list machines: %w", err)
	}

	names = map[string][]string{}
	for _, e := range list {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
			continue // of an editor
		}

		key, err := identity(name)
		if err != nil {
			strays = append(strays, err)
			continue
		}

		names[key] = append(names[key], name)
	}

	return names, strays, nil
}

// identity is what a file is called by.
func identity(name string) (string, error) {
	stem, ok := strings.CutSuffix(name, ".yaml")
	serial, isSerial := strings.CutPrefix(stem, "serial-")
	id, isUUID := strings.CutPrefix(stem, "uuid-")
	mac, macErr := net.ParseMAC(stem)
	parsed, idErr := uuid.Parse(id)

	switch {
	case ok && name == Default:
		return Default, nil
	case ok && isSerial && serial != "":
		return stem, nil
	case ok && isUUID && idErr == nil:
		return "uuid-" + parsed.String(), nil
	case ok && macErr == nil && len(mac) == 6:
		return mac.String(), nil
	}

	return "", hint.With(fmt.Errorf("%s names no machine", name),
		"call it 52:54:00:12:34:56.yaml, serial-NUMBER.yaml, uuid-UUID.yaml or %s", Default)
}

// read reads a file and checks that it is a machine.yaml. It may be signed.
func read(root *os.Root, name string) (Entry, error) {
	text, err := root.ReadFile(name)
	if err != nil {
		return Entry{Name: name}, fmt.Errorf("read %s: %w", name, err)
	}

	e := Entry{Name: name, text: string(text)}
	m, err := machine.DecodeUnverified(name, Sample(text))
	e.Installs = m.Install != nil

	return e, err
}
