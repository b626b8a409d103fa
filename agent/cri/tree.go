package cri

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// table is a table of TOML.
type table = map[string]any

// enter is the table at path below root, made where it is missing. A value in
// its place is an error along fixed, which is replaced elsewhere: misfit says
// so.
func enter(root table, path, fixed []string) (found table, misfit, err error) {
	for i, name := range path {
		next, ok := root[name].(table)
		if !ok && root[name] != nil {
			if hasPrefix(fixed, path[:i+1]) {
				return nil, nil, notTable(path[:i+1])
			}
			misfit = notTable(path[:i+1])
		}
		if !ok {
			next = table{}
			root[name] = next
		}
		root = next
	}
	return root, misfit, nil
}

// set puts value at path, see enter for the rest. An empty table is merged: it
// is there afterwards.
func set(root table, path []string, value any, fixed []string) (misfit, err error) {
	if empty, ok := value.(table); ok && len(empty) == 0 {
		_, misfit, err := enter(root, path, fixed)
		return misfit, err
	}

	last := len(path) - 1
	if last < 0 {
		return nil, isTable(path)
	}

	parent, misfit, err := enter(root, path[:last], fixed)
	if err != nil {
		return nil, err
	}

	if _, ok := parent[path[last]].(table); ok {
		if hasPrefix(fixed, path) {
			return nil, isTable(path)
		}
		misfit = isTable(path)
	}

	parent[path[last]] = value
	return misfit, nil
}

// remove deletes what is at path, if anything is.
func remove(root table, path []string) error {
	for i, name := range path {
		if i == len(path)-1 {
			delete(root, name)
			return nil
		}

		if root[name] == nil {
			return nil
		}

		next, ok := root[name].(table)
		if !ok {
			return notTable(path[:i+1])
		}

		root = next
	}

	clear(root)
	return nil
}

// leaves calls each with every value that is no table, or an empty one, and its
// path, in the order of the paths.
func leaves(path []string, value any, each func(path []string, value any) error) error {
	inner, ok := value.(table)
	if !ok || len(inner) == 0 {
		return each(path, value)
	}
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		if err := leaves(append(slices.Clip(path), name), inner[name], each); err != nil {
			return err
		}
	}
	return nil
}

// plain turns a value of JSON into one of TOML: whole numbers become integers,
// and null, which TOML lacks, is left out of lists.
func plain(value any) any {
	switch value := value.(type) {
	case float64:
		if value == math.Trunc(value) && math.Abs(value) < 1<<63 {
			return int64(value)
		}
	case []any:
		items := []any{}
		for _, item := range value {
			if item != nil {
				items = append(items, plain(item))
			}
		}
		return items
	case table:
		fields := table{}
		for name, field := range value {
			fields[name] = plain(field)
		}
		return fields
	}

	return value
}

func notTable(path []string) error { return fmt.Errorf("%s is a value, not a table", join(path)) }
func isTable(path []string) error  { return fmt.Errorf("%s is a table, not a value", join(path)) }

func join(path []string) string {
	return strings.Join(slices.Concat([]string{"plugins"}, path), ".")
}
