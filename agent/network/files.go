package network

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Files are the texts of files by their names in Dir. Empty means the image's
// own.
type Files map[string]string

// Dir is where systemd-networkd looks before the directory of the image.
const Dir = "/run/systemd/network"

// record is how Files are stored: what networkd reads, not what machine.yaml
// says, so that every version of the system can use it.
type record struct {
	Files Files `json:"files"`
}

// Encode returns f in the form that ParseFiles reads.
func (f Files) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(record{f}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the network: %w", err)
	}
	return append(text, '\n'), nil
}

// ParseFiles reads the output of Encode.
func ParseFiles(text []byte) (Files, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("parse the network: %w", err)
	}
	for name := range r.Files {
		if path.Base(name) != name || strings.HasPrefix(name, ".") {
			return nil, fmt.Errorf("parse the network: %q is not a file name", name)
		}
	}
	return r.Files, nil
}

// NameOf returns the name of the Interface that a file belongs to, or "".
func NameOf(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(file, path.Ext(file)), "-loam-")
	if file == Default {
		return ""
	}
	return name
}

// MatchOf returns the [Match] section of a NIC's file, in the words of
// systemd.network(5).
func MatchOf(text string) string {
	_, match, _ := strings.Cut(text, "[Match]\n")
	match, _, _ = strings.Cut(match, "\n\n")
	return strings.Join(strings.Fields(match), ", ")
}
