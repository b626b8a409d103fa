package osc

import (
	"path"
	"regexp"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// dataKey is a key of a Secret (Kubernetes API reference, Secret v1, data).
var dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// image is an image reference as OCI registries accept it, with an optional
// host (distribution/reference): HOST[:PORT]/PATH[:TAG][@DIGEST], in lower case
// except for the tag and for a host with a domain.
var image = regexp.MustCompile(
	`^(([a-z0-9]([-.a-z0-9]*[a-z0-9])?|[-A-Za-z0-9]+(\.[-A-Za-z0-9]+)+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/)?` +
		`[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*` +
		`(:[A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?(@sha256:[0-9a-f]{64})?$`,
)

// maxImage is the longest reference in bytes; without tag and digest the limit
// is 255.
const maxImage = 512

func checkSecretRef(report *document.Report, at string, ref SecretRef) {
	switch {
	case ref.Name == "":
		report.Add(at+".name", "empty", "name the Secret")
	case len(ref.Name) > 253 || !hostName.MatchString(ref.Name):
		report.Add(at+".name", document.Quote(ref.Name)+" is not the name of a Secret",
			"write it in lower case: letters, digits, dashes and dots")
	}
	switch {
	case ref.DataKey == "":
		report.Add(at+".dataKey", "empty", "name the key of the Secret's data")
	case !dataKey.MatchString(ref.DataKey) || ref.DataKey == "." ||
		strings.HasPrefix(ref.DataKey, ".."):
		report.Add(at+".dataKey", document.Quote(ref.DataKey)+" is not a key of a Secret",
			"write letters, digits, dashes, underscores and dots")
	}
}

func checkImageRef(report *document.Report, at string, ref ImageRef) {
	if problem, hint := checkImage(ref.Image); problem != "" {
		report.Add(at+".image", problem, hint)
	}
	file := ref.FilePathInImage
	switch at := at + ".filePathInImage"; {
	case file == "":
		report.Add(at, "empty", "write the file's absolute path in the image, such as /kubelet")
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/" ||
		strings.ContainsFunc(file, isControl):
		report.Add(at, document.Quote(file)+" is not the absolute path of a file",
			"begin it with / and leave out . and .. and a / at the end")
	}
}

// checkImage returns the problem of an image reference and a hint, or "".
func checkImage(name string) (problem, hint string) {
	switch {
	case name == "":
		return "empty", "name the image, such as registry.example/hyperkube@sha256:DIGEST"
	case len(name) > maxImage || !image.MatchString(name):
		return document.Quote(name) + " is not a reference to an image",
			"write HOST[:PORT]/PATH[:TAG][@sha256:DIGEST], host and path in lower case"
	}
	return "", ""
}
