package osc

import (
	"path"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// spell rewrites the paths of a decoded document in their shortest form, which
// the rest of this package expects. It warns of the paths it changes, as the
// kernel takes either form.
func (o *OperatingSystemConfig) spell(report *document.Report) {
	spellFiles(report, "spec.files", o.Spec.Files)
	spellFiles(report, "status.extensionFiles", o.Status.ExtensionFiles)

	for _, unit := range o.units() {
		for i := range unit.value.FilePaths {
			spell(report, item(unit.at+".filePaths", i), &unit.value.FilePaths[i])
		}
	}
}

func spellFiles(report *document.Report, list string, files []File) {
	for i := range files {
		at := item(list, i)
		spell(report, at+".path", &files[i].Path)
		if ref := files[i].Content.ImageRef; ref != nil {
			spellInImage(report, at+".content.imageRef.filePathInImage", &ref.FilePathInImage)
		}
	}
}

// spell ignores paths that are not absolute or contain "..", because CheckPath
// refuses them.
func spell(report *document.Report, at string, file *string) {
	short := path.Clean(*file)
	if short == *file || !path.IsAbs(*file) || strings.HasSuffix(*file, "/") ||
		hasPart(*file, "..") {
		return
	}
	report.Warn(at, document.Quote(*file)+" is not in its shortest form", "write "+short)
	*file = short
}

// spellInImage resolves a relative path at the root of the image, and drops a
// slash at the end.
func spellInImage(report *document.Report, at string, file *string) {
	short := path.Clean("/" + *file)
	if short == *file || short == "/" || hasPart("/"+*file, "..") ||
		strings.ContainsFunc(*file, isControl) {
		return
	}
	report.Warn(at, document.Quote(*file)+" is not the absolute path of a file",
		"begin it with / and leave out . and .. and a / at the end")
	*file = short
}
