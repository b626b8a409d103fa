package compose

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/hint"
)

// part is an entry of spec.units or spec.files, and the files that it came
// from, each by its path in the entry: "" or .dropIns[0].
type part struct {
	entry interface{ node() *yaml.Node }
	from  map[string]string
}

type unit struct {
	Name    string
	Content *string // nil if there are only drop-ins
	DropIns []dropIn
}

type dropIn struct{ Name, Content string }

type file struct {
	Path        string
	Permissions uint32
	Content     struct{ Inline inline }
}

// inline has Data in base64 if Encoding is b64, as it is if that is empty.
type inline struct{ Encoding, Data string }

// readUnits reads unit files NAME and drop-ins NAME.d/*.conf, by name.
func readUnits(dir string) ([]part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	units := map[string]part{}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		name, isDropIns := strings.CutSuffix(e.Name(), ".d")
		if _, known := units[name]; !known {
			units[name] = part{entry: &unit{Name: name}, from: map[string]string{"": path}}
		}

		if isDropIns {
			errs = append(errs, readDropIns(path, units[name]))
			continue
		}

		text, err := readUnit(path, e)
		units[name].entry.(*unit).Content = &text
		errs = append(errs, err)
	}

	var parts []part
	for _, name := range slices.Sorted(maps.Keys(units)) {
		parts = append(parts, units[name])
	}

	return parts, errors.Join(errs...)
}

func readDropIns(dir string, of part) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	var errs []error
	for i, e := range entries {
		path := filepath.Join(dir, e.Name())
		text, err := readUnit(path, e)
		u := of.entry.(*unit)
		u.DropIns = append(u.DropIns, dropIn{Name: e.Name(), Content: text})
		errs = append(errs, err)
		of.from[fmt.Sprintf(".dropIns[%d]", i)] = path
	}

	return errors.Join(errs...)
}

func readUnit(path string, e fs.DirEntry) (string, error) {
	text, err := readRegular(path, e)
	if err == nil && !utf8.Valid(text) {
		err = fmt.Errorf("%s: not UTF-8 text, as unit files are", path)
	}
	return string(text), err
}

// readFiles reads the tree of dir as the root directory of a node.
func readFiles(dir string) ([]part, error) {
	var parts []part
	var errs []error
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case path == dir && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir():
			return nil
		}

		f, err := readFile(path, e)
		f.Path = filepath.ToSlash(strings.TrimPrefix(path, dir))
		parts = append(parts, part{entry: f, from: map[string]string{"": path}})
		errs = append(errs, err)

		return nil
	})

	return parts, errors.Join(append(errs, err)...)
}

// readFile reads one file with its mode. Group and others never write: with
// that, the umask of who checks the directory out would be in the document.
func readFile(path string, e fs.DirEntry) (file, error) {
	text, err := readRegular(path, e)
	if err != nil {
		return file{}, err
	}

	info, err := e.Info()
	if err != nil {
		return file{}, err
	}

	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		return file{}, hint.With(
			fmt.Errorf("%s: has mode %s, which few tools keep", path, info.Mode()),
			"write it in osc.yaml, with permissions",
		)
	}

	f := file{Permissions: uint32(info.Mode().Perm() &^ 0o022)}
	f.Content.Inline.Data = string(text)

	if !isText(text) {
		f.Content.Inline = inline{Encoding: "b64", Data: base64.StdEncoding.EncodeToString(text)}
	}

	return f, nil
}

func readRegular(path string, e fs.DirEntry) ([]byte, error) {
	if !e.Type().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return os.ReadFile(path)
}

// isText reports whether text is as every reader of YAML gives it back: lines
// that end with a line feed, without other characters of control or direction.
func isText(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	return !strings.ContainsFunc(string(text), func(r rune) bool {
		return (r < ' ' && r != '\t' && r != '\n') || (r >= 0x7f && r < 0xa0) || r == 0x2028 ||
			r == 0x2029 || r == 0xfeff
	})
}
