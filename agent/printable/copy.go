package printable

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/loam-os/loam/hint/redact"
)

const (
	// maxText is the longest text in a [Copy], in bytes.
	maxText = 16 << 10
	// maxPath is the longest name in one. It is longer than MaxName, as programs take
	// it: a file that a directory of the configuration has fits.
	maxPath = 512
)

// Copy returns a deep copy of a value with exported fields, in which each text is as
// [Text] returns it, without the passwords of URLs. Text that is fit stays as it is.
func Copy[T any](value T) T {
	from := reflect.ValueOf(&value).Elem()
	to := reflect.New(from.Type()).Elem()
	copyValue(to, from)
	return to.Interface().(T)
}

// copyValue copies from into to, which is zero.
func copyValue(to, from reflect.Value) {
	to.Set(from)
	switch from.Kind() {
	case reflect.String:
		to.SetString(Text(redact.URLs(from.String())))
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyValue(to.Elem(), from.Elem())
		}
	case reflect.Struct:
		for i := range from.NumField() {
			if to.Field(i).CanSet() {
				copyValue(to.Field(i), from.Field(i))
			}
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyValue(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for _, key := range from.MapKeys() {
				to.SetMapIndex(copied(key), copied(from.MapIndex(key)))
			}
		}
	}
}

// copied returns a copy of a key or a value of a map, which cannot be set in place.
func copied(from reflect.Value) reflect.Value {
	to := reflect.New(from.Type()).Elem()
	copyValue(to, from)
	return to
}

// Text returns a text that is bounded, and fit for a terminal but for its line feeds:
// what is not has a space in its place. It keeps passwords: use it only for what a
// program reads again.
func Text(text string) string {
	text = cutNames(text, maxPath)
	cut := len(text) > maxText
	text = strings.Map(func(r rune) rune {
		if r == '\n' || isPrintable(r) || unicode.Is(unicode.Zs, r) {
			return r
		}
		return ' '
	}, text[:min(len(text), maxText)])
	if cut {
		text += " ..."
	}
	return text
}
