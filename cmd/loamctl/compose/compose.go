package compose

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// The names that a directory may hold. README* and names that begin with a dot
// are for operators and their tools.
const (
	baseName  = "osc.yaml"
	unitsName = "units"
	filesName = "files"
)

// Document is an OperatingSystemConfig as it goes to nodes.
type Document struct {
	// Name is the path it was read from.
	Name string
	Text []byte

	// base is the osc.yaml of a directory, and baseText its text; of a file
	// that is the document, they are Name and Text.
	base     string
	baseText []byte

	// from is the file that each part of the document came from, by its path in
	// the document: spec.units[0].
	from map[string]string
}

// Read reads the document in the file or directory at path; a file may be the
// Secret of a node. Check says whether it is right.
func Read(path string) (Document, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Document{}, err
	}
	if info.IsDir() {
		return readDir(path)
	}

	text, err := document.ReadFile(path)
	if err != nil {
		return Document{}, err
	}

	name, text, err := inSecret(path, text)
	return Document{
		Name:     name,
		Text:     text,
		base:     name,
		baseText: text,
	}, err
}

func readDir(dir string) (Document, error) {
	if err := known(dir); err != nil {
		return Document{}, err
	}

	d := Document{Name: dir, base: filepath.Join(dir, baseName), from: map[string]string{}}
	var err error
	d.baseText, err = document.ReadFile(d.base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}

	units, unitsErr := readUnits(filepath.Join(dir, unitsName))
	files, filesErr := readFiles(filepath.Join(dir, filesName))
	if err := errors.Join(unitsErr, filesErr); err != nil {
		return d, err
	}

	d.Text = d.baseText
	if len(units)+len(files) > 0 {
		err = d.add(units, files)
	}

	return d, err
}

// known refuses a directory with an unknown name, such as unit/ for units/: its
// content would be ignored without a word.
func known(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	var errs []error
	found := false
	for _, e := range entries {
		name := e.Name()
		mine := name == baseName || ((name == unitsName || name == filesName) && e.IsDir())
		found = found || mine
		if !mine && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "README") {
			errs = append(errs, fmt.Errorf("%s: has no meaning here", filepath.Join(dir, name)))
		}
	}
	if !found {
		errs = append(errs, fmt.Errorf("%s: no configuration in it", dir))
	}

	if errs == nil {
		return nil
	}
	return hint.With(fault.With(errors.Join(errs...), fault.DocumentInvalid),
		"a directory has osc.yaml, units/ or files/, see loamctl osc --help")
}
