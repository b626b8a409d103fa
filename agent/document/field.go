package document

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// fields are the fields of a struct and its embedded structs, by the name in
// their json tag.
type fields struct {
	index map[string][]int
	names []string
}

// fieldsOf returns the fields of the struct type t from a cache.
func (d *decoder) fieldsOf(t reflect.Type) fields {
	found, ok := d.types[t]
	if !ok {
		found = fieldsOf(t)
		d.types[t] = found
	}
	return found
}

func fieldsOf(t reflect.Type) fields {
	found := fields{index: make(map[string][]int, t.NumField())}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		found.index[name] = f.Index
		found.names = append(found.names, name)
	}
	return found
}

// Join returns the path of the field key below path. It masks secrets: a value that
// is not indented, or lacks its name, is read as the name of a field.
func Join(path, key string) string {
	key = masked(key)
	if strings.ContainsAny(key, ".[]\" ") || key == "" {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// at returns the path of item i of the list at path.
func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func orWhole(path string) string {
	if path == "" {
		return Whole
	}
	return path
}

// suggest returns a hint with the known field that key probably means, or with
// all of them if none is near and they are few.
func suggest(key string, known []string) string {
	if near := Nearest(key, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) <= 12 {
		return "known here: " + strings.Join(known, ", ")
	}
	return ""
}

// Nearest returns the word in known that word probably means: it differs in
// case or in at most a third of its letters. It returns "" if none is near.
func Nearest(word string, known []string) string {
	best := ""
	bestDistance := len(word)/3 + 1

	if len(word) > 64 { // No field has a name like this.
		return ""
	}

	for _, candidate := range known {
		if strings.EqualFold(word, candidate) {
			return candidate
		}
		if d := distance(word, candidate); d < bestDistance {
			best = candidate
			bestDistance = d
		}
	}

	return best
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbor to turn a into b (restricted Damerau-Levenshtein).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}

	for j := range rows[0] {
		rows[0][j] = j
	}

	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}

	return rows[len(a)][len(b)]
}
