package machine

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// NodeAgentDirectory is where Gardener places the files of its node agent, and
// the only directory for Files in machine.yaml.
const NodeAgentDirectory = "/var/lib/gardener-node-agent"

// Names of files in NodeAgentDirectory that Loam reads.
const (
	machineNameFile    = NodeAgentDirectory + "/machine-name"
	bootstrapTokenFile = NodeAgentDirectory + "/credentials/bootstrap-token"
)

// Placeholders are the texts that Gardener's machine-controller-manager
// replaces in user data when it creates a machine (its
// pkg/util/provider/machinecontroller/userdata.go).
var Placeholders = []string{"<<BOOTSTRAP_TOKEN>>", "<<MACHINE_NAME>>"}

// PlacedFile is where the agent records which files it has placed in
// NodeAgentDirectory.
const PlacedFile = NodeAgentDirectory + "/placed-files"

// kept are files in NodeAgentDirectory that the agent writes itself.
var kept = []string{PlacedFile, NodeAgentDirectory + "/secret-name"}

// InitialFile is a file that a machine needs in order to join its cluster.
type InitialFile struct {
	// Path is absolute, in NodeAgentDirectory.
	Path string `json:"path"`

	// Mode is the permission bits, 0600 if absent.
	Mode *uint32 `json:"mode"`

	// Content is the text of the file. Either this or Base64 is set.
	Content string `json:"content"`
	// Base64 is the encoding of a file of any bytes (RFC 4648, section 4).
	Base64 string `json:"base64"`
}

// Permissions returns the permission bits of the file.
func (f InitialFile) Permissions() fs.FileMode {
	if f.Mode == nil {
		return 0o600
	}
	return fs.FileMode(*f.Mode)
}

// Data returns the bytes of a file that Decode has checked.
func (f InitialFile) Data() []byte {
	if f.Base64 == "" {
		return []byte(f.Content)
	}
	data, _ := base64.StdEncoding.DecodeString(f.Base64)
	return data
}

// MachineName returns the machine's name in Gardener's files, "" if absent.
func (m Machine) MachineName() string {
	for _, f := range m.Files {
		if f.Path == machineNameFile {
			line, _, _ := strings.Cut(string(f.Data()), "\n")
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func checkFiles(report *document.Report, m Machine) {
	if len(m.Files) == 0 {
		return
	}

	agent := m.Source.NodeAgent
	if agent == nil || (agent.Directory != "" && agent.Directory != NodeAgentDirectory) {
		report.Add("files", "are allowed only with a source that reads "+NodeAgentDirectory,
			"write source: {nodeAgent: {}}, or leave files out")
	}

	for i, f := range m.Files {
		at := fmt.Sprintf("files[%d]", i)
		checkFilePath(report, at+".path", f.Path)

		if slices.ContainsFunc(m.Files[:i], func(other InitialFile) bool {
			return other.Path == f.Path
		}) {
			report.Add(at+".path", document.Quote(f.Path)+" given twice", "keep one of them")
		}

		if mode := f.Permissions(); mode&0o400 == 0 || mode&^0o755 != 0 {
			report.Add(at+".mode",
				fmt.Sprintf("0%o lets others write, or the owner not read",
					uint32(mode)), "write an octal number such as 0640")
		}

		checkFileContent(report, at, f)
	}
}

// checkFilePath reports a path that is not directly in NodeAgentDirectory, or
// that the agent writes itself.
func checkFilePath(report *document.Report, at, name string) {
	checkPath(report, at, name, "file", machineNameFile)
	if name == "" || path.Clean(name) != name || name == bootstrapTokenFile {
		return
	}

	dir, base := path.Split(name)
	switch {
	case dir != NodeAgentDirectory+"/" || strings.HasPrefix(base, ".") || base == "credentials":
		report.Add(at, document.Quote(name)+" is not a file that can be given here",
			"write one directly in "+NodeAgentDirectory+", or "+bootstrapTokenFile)
	case slices.Contains(kept, name):
		report.Add(at, document.Quote(name)+" is a file that the agent writes itself",
			"leave it out")
	}
}

func checkFileContent(report *document.Report, at string, f InitialFile) {
	switch {
	case f.Content != "" && f.Base64 != "":
		report.Add(at+".base64", "is set as well as content", "keep one of them")
	case f.Content == "" && f.Base64 == "":
		report.Add(at+".content", "empty", "write the text of the file, or its bytes as base64")
	}

	if _, err := base64.StdEncoding.Strict().DecodeString(f.Base64); err != nil {
		report.Add(at+".base64", "is not base64: "+err.Error(),
			"write it as `base64` prints it (RFC 4648, section 4)")
	}

	for _, placeholder := range Placeholders {
		if strings.Contains(f.Content, placeholder) {
			report.Add(at+".content", "has the placeholder "+placeholder,
				"write the value itself, as Gardener's machine-controller-manager does for the "+
					"machines that it creates")
		}
	}
}
