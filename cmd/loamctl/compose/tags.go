package compose

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
)

// Tags returns the images that the document names by a tag and by no digest, as
// warnings: document.Errors, nil for none. It is for a document in which Check finds
// nothing wrong.
func (d Document) Tags() error {
	if d.baseText == nil {
		return nil // Only osc.yaml can name images.
	}
	var asked osc.OperatingSystemConfig
	origin, err := document.DecodeWithOrigin(d.base, d.baseText, &asked)
	if _, known := errors.AsType[document.Errors](err); err != nil && !known {
		return err
	}

	report := document.NewReport(origin)
	for list, files := range map[string][]osc.File{
		"spec.files":            asked.Spec.Files,
		"status.extensionFiles": asked.Status.ExtensionFiles,
	} {
		for i, file := range files {
			ref := file.Content.ImageRef
			if ref == nil || strings.Contains(ref.Image, "@") {
				continue
			}
			report.Warn(fmt.Sprintf("%s[%d].content.imageRef.image", list, i),
				document.Quote(ref.Image)+" has a tag and no digest: it is what the registry says that day",
				"name it as IMAGE@sha256:DIGEST")
		}
	}
	return report.Err()
}

// IsSecret reports whether the document was in the Secret of a node.
func (d Document) IsSecret() bool { return strings.HasSuffix(d.Name, "["+secretKey+"]") }
