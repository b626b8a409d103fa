package osc

import (
	"net/url"
	"path"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint/redact"
)

// spell rewrites the paths and URLs of a decoded document in their shortest
// form, which the rest of this package expects. It warns of those it changes, as
// the kernel and containerd take either form of most.
func (o *OperatingSystemConfig) spell(report *document.Report) {
	spellFiles(report, "spec.files", o.Spec.Files)
	spellFiles(report, "status.extensionFiles", o.Status.ExtensionFiles)

	for _, unit := range o.units() {
		for i := range unit.value.FilePaths {
			spell(report, item(unit.at+".filePaths", i), &unit.value.FilePaths[i])
		}
	}

	if cri := o.Spec.CRIConfig; cri != nil && cri.Containerd != nil {
		spellRegistries(report, cri.Containerd.Registries)
	}
}

// spellRegistries rewrites the URLs of registries and mirrors, which containerd
// would misread: it takes HTTPS:// for a host, and adds /v2 to the path "/".
func spellRegistries(report *document.Report, registries []Registry) {
	for i, registry := range registries {
		at := item(containerdPath+".registries", i)
		if registry.Server != nil {
			spellURL(report, at+".server", registry.Server)
		}
		for j := range registry.Hosts {
			spellURL(report, item(at+".hosts", j)+".url", &registry.Hosts[j].URL)
		}
	}
}

// spellURL ignores what checkURL refuses.
func spellURL(report *document.Report, at string, text *string) {
	parsed, err := url.Parse(*text)
	if err != nil || parsed.Host == "" || parsed.Opaque != "" {
		return
	}

	parsed.Host = strings.TrimSuffix(strings.ToLower(parsed.Host), ":")
	if parsed.Path != "" {
		parsed.Path = strings.TrimSuffix(path.Clean(parsed.Path), "/")
		parsed.RawPath = ""
	}

	short := parsed.String() // With the scheme in lower case.
	if short == *text {
		return
	}
	report.Warn(at, document.Quote(*text)+" is not in its shortest form", "write "+redact.URLs(short))
	*text = short
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
