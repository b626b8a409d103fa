package network

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Files are texts by their names in Dir; none for what the image has.
type Files map[string]string

// Dir is where systemd-networkd looks before it looks at the image.
const Dir = "/run/systemd/network"

// record is Files as they are kept: what networkd reads, not what machine.yaml
// says, so that a system of any version can use what another one kept.
type record struct {
	Files Files `json:"files"`
}

// Encode is f as it is kept.
func (f Files) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(record{f}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the network: %w", err)
	}
	return append(text, '\n'), nil
}

// ParseFiles reads what Encode has written.
func ParseFiles(text []byte) (Files, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("parse the network: %w", err)
	}
	for name := range r.Files {
		if path.Base(name) != name || strings.HasPrefix(name, ".") {
			return nil, fmt.Errorf("parse the network: %q is no file name", name)
		}
	}
	return r.Files, nil
}

// NameOf is the Interface that a file is of, "" if it is of none.
func NameOf(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(file, path.Ext(file)), "-loam-")
	if file == Default {
		return ""
	}
	return name
}

// MatchOf is what a file of a NIC says of it, in the words of
// systemd.network(5).
func MatchOf(text string) string {
	_, match, _ := strings.Cut(text, "[Match]\n")
	match, _, _ = strings.Cut(match, "\n\n")
	return strings.Join(strings.Fields(match), ", ")
}
