package cri

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// table is a TOML table.
type table = map[string]any

// enter returns the table at path below root, and creates missing ones. A value
// in place of a table is an error within the first fixed names of the path, see
// misfit, and is replaced below them.
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

// set writes value at path; see enter for values on the way. An empty table is
// merged, so it exists afterwards.
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

// remove deletes the value at path, if any.
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

// leaves calls each with every value that is not a table, every empty table,
// and its path, in the order of the paths.
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

// plain converts a JSON value to TOML: integral numbers become integers, and
// null, which TOML lacks, is dropped from lists.
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
