package source

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint"
)

// DriveLabels are the labels of drives that machine.yaml may be on: ours, and
// the label of cloud-init's data source NoCloud, which hypervisors make.
var DriveLabels = []string{"LOAM", "CIDATA"}

// Drive is a drive with one of DriveLabels.
type Drive interface {
	// String names the drive for display.
	String() string
	// Serial returns the serial number of the disk, "" if it has none.
	Serial() string
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

// ours matches user-data that is meant to be a machine.yaml, and has a mistake:
// its first line says so, or it looks like a document of that kind.
var ours = regexp.MustCompile(`\A#loam\b|(?m:^[\s{]*["']?kind["']?\s*:\s*["']?Machine\b)|` +
	`\A\s*\{[^}]*"kind"\s*:\s*"Machine"`)

// byteOrderMark is what editors of Windows begin UTF-8 with.
var byteOrderMark = []byte("\ufeff")

// isOurs reports whether user-data is a machine.yaml, in any form of YAML or
// JSON.
func isOurs(text []byte) bool {
	if trust.IsEnvelope(text) || ours.Match(text) {
		return true
	}

	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return false
	}
	for key, value := range fieldsOf(&root) {
		if key == "kind" && value.Value == "Machine" {
			return true
		}
	}
	return false
}

// drives are the present drives. At most one may be meant for this node, and
// after the first document only the drive that it was on.
type drives struct {
	list     func() ([]Drive, error)
	accepted *Accepted
}

func (d drives) Read(context.Context) (Document, error) {
	found, err := d.list()
	found = slices.DeleteFunc(found, func(one Drive) bool { return !d.accepted.mayRead(one) })
	switch {
	case err != nil:
		return Document{}, err
	case len(found) == 0:
		return Document{}, errNoDrive
	case d.accepted.needsText(len(found)):
		return d.byText(found)
	case len(found) > 1:
		names := make([]string, len(found))
		for i, drive := range found {
			names[i] = drive.String()
		}
		return Document{}, hint.With(
			fmt.Errorf("machine.yaml may be on any of %s", strings.Join(names, ", ")),
			"attach only the drive of this node",
		)
	}

	return readDrive(found[0])
}

// byText returns the accepted document if one of several drives has it, or the document
// of the only drive: a signature may prove that. A drive that cannot be read, or has
// something else, must not keep a node from its configuration.
func (d drives) byText(found []Drive) (Document, error) {
	var other Document
	readable := 0
	for _, drive := range found {
		doc, err := readDrive(drive)
		if err != nil {
			continue
		}
		if doc.digest() == d.accepted.Digest {
			return doc, nil
		}
		other = doc
		readable++
	}

	if readable == 1 && len(found) == 1 {
		return other, nil
	}
	return Document{}, errNoDrive
}

// errNoDrive is ErrAbsent for drives.
var errNoDrive = fmt.Errorf("drive labelled %s: %w", strings.Join(DriveLabels, " or "), ErrAbsent)

func readDrive(from Drive) (Document, error) {
	files, err := from.Read(document.MaxSize, machineFile, userData, metaData)
	if err != nil {
		return Document{}, err
	}

	for file, text := range files {
		files[file] = bytes.TrimPrefix(text, byteOrderMark)
	}

	name := machineFile
	data := files[userData]
	if files[name] == nil && isOurs(data) {
		name = userData
	}

	if files[name] == nil {
		return Document{}, notForUs(from, data)
	}

	found := Document{
		Name:   fmt.Sprintf("%s of %s", name, from),
		Text:   files[name],
		Kind:   FromDrive,
		Serial: from.Serial(),
	}
	found.Hostname, err = hostnameOf(files[metaData])
	if err != nil {
		return Document{}, fmt.Errorf("%s of %s: %w", metaData, from, err)
	}

	return found, nil
}

func notForUs(from Drive, data []byte) error {
	if data == nil {
		return hint.With(fmt.Errorf("%s: neither %s nor %s", from, machineFile, userData),
			"give it a %s", machineFile)
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return hint.With(
		fmt.Errorf(
			"%s: no %s, and a %s that begins with %s",
			from, machineFile, userData, document.Quote(string(first)),
		),
		"give it a %s, or make it the %s, with #loam as its first line", machineFile, userData,
	)
}

// localHostname matches the line of meta-data with the node's name.
var localHostname = regexp.MustCompile(`(?m)^["']?local-hostname["']?\s*:\s*(.*?)\s*$`)

// hostnameOf returns the node's name in meta-data, in lower case. The rest of meta-data is
// ignored, as far as it can be: what cloud-init takes must not keep a node from
// its machine.yaml. Of a field that is given twice the later counts.
func hostnameOf(text []byte) (string, error) {
	var root yaml.Node
	err := yaml.Unmarshal(text, &root)
	if err != nil {
		lines := localHostname.FindAllSubmatch(text, -1)
		if len(lines) == 0 {
			return "", err
		}
		value, _, _ := strings.Cut(string(lines[len(lines)-1][1]), " #")
		return strings.ToLower(strings.Trim(value, "\"' \t")), nil
	}

	name := ""
	for key, value := range fieldsOf(&root) {
		if key == "local-hostname" && value.ShortTag() != "!!null" {
			name = value.Value
		}
	}
	return strings.ToLower(name), nil
}

// fieldsOf returns the fields of a document that is a mapping.
func fieldsOf(root *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
			return
		}
		pairs := root.Content[0].Content
		for i := 0; i+1 < len(pairs); i += 2 {
			if !yield(pairs[i].Value, pairs[i+1]) {
				return
			}
		}
	}
}
