package compose

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/hint"
)

// Check returns all faults of the document, as document.Errors: each with the
// file to change, warnings among them.
func (d Document) Check() error {
	asked, wrong := osc.Decode(d.Name, d.Text)
	err := osc.Check(wrong, asked, osc.Env{})
	errs, known := errors.AsType[document.Errors](err)
	if d.from == nil || (err != nil && !known) {
		return err
	}

	if located := d.locate(errs); len(located) > 0 {
		return located
	}

	return nil
}

// locate maps each error in the composed document to the directory's file.
func (d Document) locate(errs document.Errors) document.Errors {
	var base osc.OperatingSystemConfig
	var located document.Errors
	var origin document.Origin
	if d.baseText != nil {
		var err error
		origin, err = document.DecodeWithOrigin(d.base, d.baseText, &base)
		located, _ = errors.AsType[document.Errors](err)
		located = slices.Clone(located)
	}

	for _, e := range errs {
		same := func(b document.Error) bool { return b.Path == e.Path && b.Problem == e.Problem }
		if !slices.ContainsFunc(located, same) {
			located = append(located, d.locateOne(e, origin))
		}
	}

	slices.SortStableFunc(located, func(a, b document.Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})

	return located
}

// locateOne finds an error in a unit or file, or by origin in the base.
func (d Document) locateOne(e document.Error, origin document.Origin) document.Error {
	e.File = d.Name
	e.Line = 0
	e.Column = 0

	nearest := ""
	for at := range d.from {
		if (e.Path == at || strings.HasPrefix(e.Path, at+".")) && len(at) > len(nearest) {
			nearest = at
		}
	}

	if nearest != "" {
		e.File = d.from[nearest]
	}

	if nearest != "" || d.baseText == nil {
		return e
	}

	report := document.NewReport(origin)
	report.Add(e.Path, e.Problem, e.Hint)
	one, _ := errors.AsType[document.Errors](report.Err())
	one[0].Warning = e.Warning

	return one[0]
}

// MaxSecret is how many bytes a Secret holds (MaxSecretSize in
// k8s.io/api/core/v1).
const MaxSecret = 1 << 20

// shown is how many of the largest files an error names.
const shown = 5

// Fits reports whether the document fits into a Secret; if not, the error names
// the largest of its files.
func (d Document) Fits() error {
	if len(d.Text) <= MaxSecret {
		return nil
	}
	var list strings.Builder
	for _, f := range largest(d.Text) {
		fmt.Fprintf(&list, "\n  %8d %s", len(f.Content.Inline.Data), f.Path)
	}
	return hint.With(
		fmt.Errorf(
			"%s: %d bytes, and a Secret holds %d; its largest files:%s",
			d.Name, len(d.Text), MaxSecret, list.String(),
		),
		"give large files as imageRef or secretRef",
	)
}

// largest are the files with the most content. The text is longer than the
// strict decoder takes, and may have mistakes.
func largest(text []byte) []file {
	var asked struct {
		Spec   struct{ Files []file }
		Status struct {
			ExtensionFiles []file `yaml:"extensionFiles"`
		}
	}

	_ = yaml.Unmarshal(text, &asked)
	files := slices.Concat(asked.Spec.Files, asked.Status.ExtensionFiles)
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Compare(len(b.Content.Inline.Data), len(a.Content.Inline.Data))
	})

	return files[:min(len(files), shown)]
}
