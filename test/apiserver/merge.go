package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// byType are the lists that a strategic merge patch merges by the field type of
// their elements. It replaces all others, which agents do not patch so.
var byType = []string{"conditions", "addresses"}

// directive is the key in an element that a strategic merge patch deletes.
const directive = "$patch"

// merge applies a merge patch (RFC 7386), or a strategic one.
func merge(have, patch []byte, strategic bool) ([]byte, error) {
	var from, by any
	if err := json.Unmarshal(have, &from); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &by); err != nil {
		return nil, err
	}
	out, err := merged(from, by, strategic)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// merged returns from changed as by says.
func merged(from, by any, strategic bool) (any, error) {
	changes, ok := by.(map[string]any)
	if !ok {
		return by, nil
	}
	out := map[string]any{}
	if before, ok := from.(map[string]any); ok {
		maps.Copy(out, before)
	}

	for key, value := range changes {
		var err error
		list, isList := value.([]any)
		switch {
		case value == nil:
			delete(out, key)
		case strategic && isList && slices.Contains(byType, key):
			before, _ := out[key].([]any)
			out[key], err = mergedByType(before, list)
		default:
			out[key], err = merged(out[key], value, strategic)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return out, nil
}

// mergedByType merges lists of objects that have a type each.
func mergedByType(from, by []any) ([]any, error) {
	out := slices.Clone(from)
	for _, element := range by {
		change, ok := element.(map[string]any)
		if !ok || change["type"] == nil {
			return nil, fmt.Errorf("map: %v does not contain declared merge key: type", element)
		}
		at := slices.IndexFunc(out, func(o any) bool {
			have, ok := o.(map[string]any)
			return ok && have["type"] == change["type"]
		})

		switch {
		case change[directive] == "delete" && at >= 0:
			out = slices.Delete(out, at, at+1)
		case change[directive] == "delete":
		case change[directive] != nil:
			return nil, fmt.Errorf("directive %v is not spoken", change[directive])
		case at < 0:
			out = append(out, change)
		default:
			next, err := merged(out[at], change, true)
			if err != nil {
				return nil, err
			}
			out[at] = next
		}
	}
	return out, nil
}
