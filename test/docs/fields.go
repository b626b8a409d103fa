package docs

import (
	"cmp"
	"encoding"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Field is a field of a document.
type Field struct {
	// Path is written as in errors, with [] for an item of a list:
	// source.cluster.tokens[].path.
	Path string
	Type string
	// Text says what it means.
	Text string

	// name is the last part of Path, and decoded what the value is decoded into.
	name    string
	decoded reflect.Type
	// inside has the fields of the value or, for a list, of each item.
	inside []Field
}

// Fields returns the fields of a document that is decoded into t, in the order
// of the struct, each followed by those inside it. It walks json tags as
// package document does. The texts are the comments in the packages in
// directories.
func Fields(t reflect.Type, directories ...string) ([]Field, error) {
	top, err := topFields(t, directories...)
	return flat(top), err
}

// topFields returns only the fields of t itself.
func topFields(t reflect.Type, directories ...string) ([]Field, error) {
	w := walker{comments: map[string]string{}, values: map[string]string{}}
	for _, dir := range directories {
		if err := w.read(dir); err != nil {
			return nil, err
		}
	}
	return w.walk(t, ""), nil
}

func flat(fields []Field) []Field {
	var all []Field
	for _, f := range fields {
		all = append(append(all, f), flat(f.inside)...)
	}
	return all
}

type walker struct {
	// comments are of types, as "Machine", and of fields, as
	// "Machine.Hostname".
	comments map[string]string
	// values are of constants.
	values map[string]string
}

// read collects the comments of the structs of a package.
func (w *walker) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}

	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if general, is := decl.(*ast.GenDecl); is {
				w.declaration(general)
			}
		}
	}
	return nil
}

func (w *walker) declaration(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			w.constants(spec)
		case *ast.TypeSpec:
			if structure, is := spec.Type.(*ast.StructType); is {
				w.structure(spec.Name.Name, oneLine(decl.Doc), structure)
			}
		}
	}
}

// constants collects the values of constants, which comments name.
func (w *walker) constants(spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			return
		}
		if lit, is := spec.Values[i].(*ast.BasicLit); is && lit.Kind == token.STRING &&
			name.IsExported() {
			w.values[name.Name] = strings.Trim(lit.Value, `"`)
		}
	}
}

// structure collects the comments of a struct. A comment on several fields is of
// none: each has a sentence of its own.
func (w *walker) structure(name, whole string, structure *ast.StructType) {
	w.comments[name] = whole
	for _, field := range structure.Fields.List {
		if len(field.Names) == 1 {
			w.comments[name+"."+field.Names[0].Name] = cmp.Or(
				oneLine(field.Doc), oneLine(field.Comment))
		}
	}
}

// text returns the comment of a field of t, or of the type inside it, with the
// document's names of fields instead of Go's.
func (w *walker) text(t reflect.Type, field reflect.StructField, inside reflect.Type) string {
	tag := "`" + tagOf(field) + "`"
	text := w.comments[t.Name()+"."+field.Name]
	if own, named := strings.CutPrefix(text, field.Name+" "); named {
		return tag + " " + w.inDocument(t, own, field.Name)
	}

	if inside != nil && w.comments[inside.Name()] != "" {
		text = w.comments[inside.Name()]
		if field.Type.Kind() == reflect.Slice {
			tag = "Each"
		}
		if own, named := strings.CutPrefix(text, inside.Name()+" "); named {
			return tag + " " + w.inDocument(inside, own, inside.Name())
		}
	}
	return w.inDocument(t, text, field.Name)
}

// inDocument replaces Go's names of fields of t, and of constants, by those of the
// document. The word except stays: it is a word of the sentence, such as Secret.
func (w *walker) inDocument(t reflect.Type, text, except string) string {
	return word.ReplaceAllStringFunc(text, func(name string) string {
		if name == except {
			return name
		}
		if other, is := t.FieldByName(name); is {
			if tagOf(other) == "-" {
				return name
			}
			return "`" + tagOf(other) + "`"
		}
		if value, is := w.values[name]; is {
			return "`" + value + "`"
		}
		return name
	})
}

// tagOf returns the name of a field in JSON.
func tagOf(field reflect.StructField) string {
	tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return tag
}

// word is a name that Go exports.
var word = regexp.MustCompile(`\b[A-Z]\w*\b`)

func oneLine(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	return strings.Join(strings.Fields(group.Text()), " ")
}

// walk returns the fields of a struct at path.
func (w *walker) walk(t reflect.Type, path string) []Field {
	var fields []Field
	for i := range t.NumField() {
		field := t.Field(i)
		name := tagOf(field)
		switch {
		case field.Anonymous && name == "":
			fields = append(fields, w.walk(field.Type, path)...)
			continue
		case name == "" || name == "-":
			continue
		}

		at := strings.TrimPrefix(path+"."+name, ".")
		kind, inside := describe(field.Type)
		if inside != nil && strings.HasPrefix(kind, "list") {
			at += "[]"
		}

		one := Field{
			Path:    at,
			Type:    kind,
			Text:    w.text(t, field, inside),
			name:    name,
			decoded: field.Type,
		}
		if inside != nil {
			one.inside = w.walk(inside, at)
		}
		fields = append(fields, one)
	}
	return fields
}

// describe names a type as YAML has it, and returns the struct in it, nil for
// none.
func describe(t reflect.Type) (name string, inside reflect.Type) {
	switch {
	case t.ConvertibleTo(reflect.TypeFor[time.Duration]()) && t.Name() == "Duration":
		return "duration", nil
	case t == reflect.TypeFor[time.Time]():
		return "time", nil
	case t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string", nil
	}

	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem())
	case reflect.Map, reflect.Interface:
		return "anything", nil
	case reflect.Struct:
		return "fields", t
	case reflect.Slice:
		name, inside := describe(t.Elem())
		return "list of " + name, inside
	case reflect.Bool:
		return "true or false", nil
	case reflect.String:
		return "string", nil
	}

	return "number", nil
}

// Table returns fields as a table, a row each.
func Table(fields []Field) string {
	var b strings.Builder
	b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, f.Type, cell(f.Text))
	}
	return b.String()
}

// FieldsPage is the page of the fields of a document.
func FieldsPage(title, source, intro string, fields []Field) string {
	return generated(title, source) + intro + "\n\n" + Table(fields)
}
