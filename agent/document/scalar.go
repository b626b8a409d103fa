package document

import (
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var timeType = reflect.TypeFor[time.Time]()

// scalar decodes a string, a boolean or an integer; its type may be a named
// one. What only the Kubernetes tools take is a warning.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.notScalar(n, v, path)
		return
	}

	switch v.Kind() {
	case reflect.String:
		d.text(n, v, path)
	case reflect.Bool:
		d.boolean(n, v, path)
	default:
		d.number(n, v, path)
	}
}

func (d *decoder) notScalar(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		d.wrong(n, path, "is "+describe(n)+", want a string", "put it in quotes")
	case reflect.Bool:
		d.wrong(n, path, "is "+describe(n)+", want true or false",
			"write true or false, without quotes")
	default:
		d.wrong(n, path, "is "+describe(n)+", want a whole number", "write digits, without quotes")
	}
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	value, ok := resolve(n)
	text, isText := asText(value)
	switch {
	case n.ShortTag() == "!!str":
		v.SetString(n.Value)
	case ok && isText:
		d.warn(n, path, "is "+describe(n)+", want a string", "put it in quotes")
		v.SetString(text)
	default:
		d.wrong(n, path, "is "+describe(n)+", want a string", "put it in quotes")
	}
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, path string) {
	value, ok := resolve(n)
	truth, isBool := value.(bool)
	const hint = "write true or false, without quotes"
	switch {
	case !ok || !isBool:
		d.wrong(n, path, "is "+describe(n)+", want true or false", hint)
	case n.ShortTag() != "!!bool" || !isTrueOrFalse(n.Value):
		d.warn(n, path, "is "+describe(n)+", want true or false", hint)
	}
	v.SetBool(ok && truth)
}

func isTrueOrFalse(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

// notOctal matches what is meant to be octal and has a digit that is not. To
// YAML it is a floating-point number.
var notOctal = regexp.MustCompile(`^0o?[0-7]*[89][0-9]*$`)

func (d *decoder) number(n *yaml.Node, v reflect.Value, path string) {
	value, ok := resolve(n)
	problem := "is " + describe(n) + ", want a whole number"
	hint := "write digits, without quotes"
	switch {
	case notOctal.MatchString(n.Value) && n.Style == 0:
		problem = "is " + Quote(n.Value) + ", which begins with 0 as an octal number does, " +
			"and has an 8 or 9"
		hint = "write digits of 0 to 7, such as 0644, or no 0 at the beginning"
	case n.ShortTag() == "!!float":
		hint = "write no fraction or exponent"
	case n.ShortTag() == "!!int" && n.Style == 0:
		d.integer(n, v, path)
		return
	}

	whole, isWhole := asWhole(value)
	if !ok || !isWhole || !setWhole(v, whole) {
		d.wrong(n, path, problem, hint)
		return
	}
	d.warn(n, path, problem, hint)
}

// asWhole returns the text of a number as JSON has it, which the Kubernetes tools
// read as a whole number if it has no fraction and no exponent.
func asWhole(value any) (text string, ok bool) {
	switch value := value.(type) {
	case int64, uint64:
		return asText(value)
	case float64:
		text := strconv.FormatFloat(value, 'f', -1, 64)
		return text, isFinite(value) && math.Abs(value) < 1e21 && !strings.Contains(text, ".")
	}
	return "", false
}

// setWhole sets v, which is of a type of whole numbers, if the number fits.
func setWhole(v reflect.Value, text string) bool {
	if v.CanUint() {
		number, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err == nil {
			v.SetUint(number)
		}
		return err == nil
	}

	number, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err == nil {
		v.SetInt(number)
	}
	return err == nil
}

// integer decodes a number in any base of YAML: 420, 0644, 0o644, 0x1a4.
func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string) {
	value, _ := resolve(n)
	if whole, ok := asWhole(value); !ok || !setWhole(v, whole) {
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
		d.pairs(n, path, func(key string, keyNode, value *yaml.Node) {
			key = d.freeKey(keyNode, path, key)
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

// freeKey returns the key as the Kubernetes tools have it, to which yes is true.
func (d *decoder) freeKey(n *yaml.Node, path, key string) string {
	value, _ := resolve(n)
	if _, isBool := value.(bool); !isBool || n.ShortTag() != "!!str" {
		return key
	}
	d.warn(n, orWhole(path), "a key is "+describe(n)+", and "+textOf(value)+
		" to the Kubernetes tools", "put the key in quotes")
	return textOf(value)
}

func (d *decoder) freeItem(n *yaml.Node, path string, depth int) any {
	n, ok := d.enter(n, path, depth)
	if !ok {
		return nil
	}
	return d.free(n, path, depth)
}

func (d *decoder) freeScalar(n *yaml.Node, path string) any {
	value, ok := resolve(n)
	if number, isFloat := value.(float64); !ok || (isFloat && !isFinite(number)) {
		d.wrong(n, path, "is "+describe(n)+", want a value that JSON knows", "put it in quotes")
		return n.Value
	}

	_, isText := value.(string)
	switch n.ShortTag() {
	case "!!null", "!!int", "!!float", "!!bool":
	case "!!str", "!!timestamp": // JSON has no times: they stay text.
		if !isText {
			d.warn(n, path, "is "+describe(n)+", and "+textOf(value)+" to the Kubernetes tools",
				"put it in quotes, or write "+textOf(value))
		}
	default:
		d.warn(n, path, "is "+describe(n)+", and text to the Kubernetes tools", "put it in quotes")
	}

	switch number := value.(type) { // As JSON has it.
	case uint64:
		return float64(number)
	case float64:
		return number + 0 // Not -0.
	}
	return value
}

// textOf returns the text of a value for a message.
func textOf(value any) string {
	text, _ := asText(value)
	return text
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
		"!!merge": "the merge key", "!!binary": "the base64 text",
	}

	name, ok := names[n.ShortTag()]
	if !ok {
		return "a value of the type " + Quote(n.ShortTag())
	}

	return name + " " + Quote(n.Value)
}
