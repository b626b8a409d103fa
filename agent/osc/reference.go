package osc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/loam-os/loam/agent/document"
)

// Reference is content that a document refers to: Key of a Secret, or the file
// Path of a container image.
type Reference struct {
	Secret, Key string
	Image, Path string
}

func (r Reference) String() string {
	if r.Image != "" {
		return fmt.Sprintf("%s of the image %s", r.Path, r.Image)
	}
	return fmt.Sprintf("%s of the Secret %s", r.Key, r.Secret)
}

// References returns what the files for this node refer to, sorted and without
// duplicates. Files that are left out do not count.
func References(osc OperatingSystemConfig, env Env) []Reference {
	var all []Reference
	for _, file := range osc.files() {
		if reference, ok := file.value.Content.reference(); ok && file.value.isWritten(env) {
			all = append(all, reference)
		}
	}
	slices.SortFunc(all, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Secret, b.Secret), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Image, b.Image), cmp.Compare(a.Path, b.Path))
	})
	return slices.Compact(all)
}

// isWritten reports whether the file is written on this node.
func (f File) isWritten(env Env) bool { return f.isFor(env) && !f.isLeftOut() }

func (c Content) reference() (Reference, bool) {
	switch {
	case c.SecretRef != nil:
		return Reference{Secret: c.SecretRef.Name, Key: c.SecretRef.DataKey}, true
	case c.ImageRef != nil:
		return Reference{Image: c.ImageRef.Image, Path: c.ImageRef.FilePathInImage}, true
	}
	return Reference{}, false
}

// field returns the name of the field that has the reference.
func (c Content) field() string {
	if c.ImageRef != nil {
		return "imageRef"
	}
	return "secretRef"
}

// checkContents reports the references of this node that env lacks.
func checkContents(report *document.Report, files []located[File], env Env) {
	for _, file := range files {
		reference, ok := file.value.Content.reference()
		if !ok || !file.value.isWritten(env) {
			continue
		}
		if _, found := env.Contents[reference]; !found {
			report.Add(file.at+".content."+file.value.Content.field(),
				"there is no "+reference.String()+" on this node", "put it into the directory "+
					"that machine.yaml names in contents, "+
					"or give the content inline")
		}
	}
}
