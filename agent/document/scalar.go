package document

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var timeType = reflect.TypeFor[time.Time]()

// notOctal matches what is meant to be octal and has a digit that is not. To YAML
// it is a floating-point number.
var notOctal = regexp.MustCompile(`^0o?[0-7]*[89][0-9]*$`)

// scalar decodes a string, a boolean or an integer; its type may be a named
// one.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case v.Kind() == reflect.String && n.ShortTag() == "!!str":
		v.SetString(n.Value)
	case v.Kind() == reflect.String && isOldText(n):
		d.warn(n, path, "is "+describe(n)+", want a string", "put it in quotes")
		v.SetString(n.Value)
	case v.Kind() == reflect.String:
		d.wrong(n, path, "is "+describe(n)+", want a string", "put it in quotes")
	case v.Kind() == reflect.Bool && n.ShortTag() == "!!bool":
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case v.Kind() == reflect.Bool:
		d.wrong(n, path, "is "+describe(n)+", want true or false",
			"write true or false, without quotes")
	case notOctal.MatchString(n.Value) && n.Style == 0:
		d.wrong(n, path, "is "+Quote(n.Value)+", which begins with 0 as an octal number does, "+
			"and has an 8 or 9", "write digits of 0 to 7, such as 0644, or no 0 at the beginning")
	case n.ShortTag() == "!!float":
		d.wrong(n, path, "is "+describe(n)+", want a whole number", "write no fraction or exponent")
	case n.ShortTag() != "!!int":
		d.wrong(n, path, "is "+describe(n)+", want a whole number", "write digits, without quotes")
	default:
		d.integer(n, v, path)
	}
}

// isOldText reports whether n is text that the Kubernetes tools, which use YAML
// 1.1, write without quotes, but that is not text in YAML 1.2: 0o644 is a
// number there, and << a merge key.
func isOldText(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	octal := strings.HasPrefix(strings.TrimLeft(n.Value, "+-"), "0o")
	return n.ShortTag() == "!!merge" || n.ShortTag() == "!!int" && octal
}

// integer decodes a number in any base of YAML: 420, 0644, 0o644, 0x1a4.
func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string) {
	text := strings.ReplaceAll(n.Value, "_", "")
	var err error
	if v.CanUint() {
		var number uint64
		number, err = strconv.ParseUint(strings.TrimPrefix(text, "+"), 0, v.Type().Bits())
		if err == nil {
			v.SetUint(number)
		}
	} else {
		var number int64
		number, err = strconv.ParseInt(text, 0, v.Type().Bits())
		if err == nil {
			v.SetInt(number)
		}
	}

	if err != nil {
		d.wrong(n, path, "the number "+Quote(n.Value)+" is out of range", "")
	}
}

// time decodes an RFC 3339 time, in quotes or not.
func (d *decoder) time(n *yaml.Node, v reflect.Value, path string) {
	parsed, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.wrong(n, path, "is "+describe(n)+", want a time",
			"write it as 2026-08-01T00:00:00Z (RFC 3339)")
		return
	}
	v.Set(reflect.ValueOf(parsed))
}

// free decodes n as the JSON types: map[string]any, []any, string, bool, int64
// or float64, nil for null.
func (d *decoder) free(n *yaml.Node, path string, depth int) any {
	switch n.Kind {
	case yaml.MappingNode:
		fields := map[string]any{}
		d.pairs(n, path, func(key string, _, value *yaml.Node) {
			fields[key] = d.freeItem(value, Join(path, key), depth+1)
		})
		return fields
	case yaml.SequenceNode:
		items := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			if d.nodes >= maxNodes {
				break
			}
			items = append(items, d.freeItem(item, at(path, i), depth+1))
		}
		return items
	}

	return d.freeScalar(n, path)
}

func (d *decoder) freeItem(n *yaml.Node, path string, depth int) any {
	n, ok := d.enter(n, path, depth)
	if !ok {
		return nil
	}
	return d.free(n, path, depth)
}

func (d *decoder) freeScalar(n *yaml.Node, path string) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!str", "!!timestamp": // JSON has no times: they stay text.
		return n.Value
	}

	if isOldText(n) {
		d.warn(n, path, "is "+describe(n)+", and text to the Kubernetes tools",
			"put it in quotes, or write a number in decimal")
		return n.Value
	}

	var v any
	if err := n.Decode(&v); err == nil {
		switch v := v.(type) {
		case bool, float64, int64:
			return v
		case int:
			return int64(v)
		}
	}

	d.wrong(n, path, "is "+describe(n)+", want a value that JSON knows", "put it in quotes")
	return nil
}

// describe names the kind of n for an error.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of fields"
	case yaml.SequenceNode:
		return "a list"
	}

	names := map[string]string{
		"!!str": "the string", "!!int": "the number", "!!float": "the number",
		"!!bool": "the boolean", "!!timestamp": "the date", "!!null": "the empty value",
		"!!merge": "the merge key",
	}

	name, ok := names[n.ShortTag()]
	if !ok {
		return "a value of the type " + Quote(n.ShortTag())
	}

	return name + " " + Quote(n.Value)
}
