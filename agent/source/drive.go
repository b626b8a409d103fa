package source

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/document"
)

// DriveLabels are the labels of drives that machine.yaml may be on: ours, and
// the label of cloud-init's data source NoCloud, which hypervisors make.
var DriveLabels = []string{"LOAM", "CIDATA"}

// Drive is a drive with one of DriveLabels.
type Drive interface {
	// String names the drive for display.
	String() string
	// Read returns the named files that are in the root directory, each of at
	// most limit bytes.
	Read(limit int64, names ...string) (map[string][]byte, error)
}

// Files of a drive.
const (
	machineFile = "machine.yaml"
	userData    = "user-data"
	metaData    = "meta-data"
)

// ours matches user-data that is a machine.yaml: its first line says so, or it
// is a document of that kind.
var ours = regexp.MustCompile(`\A#loam\b|(?m:^\{?["']?kind["']?\s*:\s*["']?Machine\b)`)

// drives are the present drives. At most one may be meant for this node.
type drives func() ([]Drive, error)

func (d drives) Read(context.Context) (Document, error) {
	found, err := d()
	switch {
	case err != nil:
		return Document{}, err
	case len(found) == 0:
		return Document{}, fmt.Errorf("drive labelled %s: %w",
			strings.Join(DriveLabels, " or "), ErrAbsent)
	case len(found) > 1:
		names := make([]string, len(found))
		for i, drive := range found {
			names[i] = drive.String()
		}
		return Document{}, fmt.Errorf("machine.yaml may be on any of %s\n"+
			"hint: attach only the drive of this node", strings.Join(names, ", "))
	}

	return readDrive(found[0])
}

func readDrive(from Drive) (Document, error) {
	files, err := from.Read(document.MaxSize, machineFile, userData, metaData)
	if err != nil {
		return Document{}, err
	}

	name := machineFile
	if files[name] == nil && ours.Match(files[userData]) {
		name = userData
	}

	if files[name] == nil {
		return Document{}, notForUs(from, files[userData])
	}

	found := Document{Name: fmt.Sprintf("%s of %s", name, from), Text: files[name]}
	found.Hostname, err = hostnameOf(files[metaData])
	if err != nil {
		return Document{}, fmt.Errorf("%s of %s: %w", metaData, from, err)
	}

	return found, nil
}

func notForUs(from Drive, data []byte) error {
	if data == nil {
		return fmt.Errorf("%s: neither %s nor %s\nhint: give it a %[2]s",
			from, machineFile, userData)
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return fmt.Errorf("%s: no %s, and a %s that begins with %s\n"+
		"hint: give it a %[2]s, or make it the %[3]s, with #loam as its first line",
		from, machineFile, userData, document.Quote(string(first)))
}

// hostnameOf returns the node's name in meta-data. The rest of meta-data is
// ignored.
func hostnameOf(text []byte) (string, error) {
	var data struct {
		Hostname string `yaml:"local-hostname"`
	}
	err := yaml.Unmarshal(text, &data)
	return strings.ToLower(data.Hostname), err
}
