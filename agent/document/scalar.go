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

// finding is what is wrong with a value. The zero finding is nothing.
type finding struct {
	problem, hint string

	// lenient is set if a lenient reader accepts the value.
	lenient bool
}

// refused is the finding about a value that no reader accepts.
func refused(problem, hint string) finding { return finding{problem: problem, hint: hint} }

// accepted is the finding about a value that a lenient reader accepts.
func accepted(problem, hint string) finding {
	return finding{problem: problem, hint: hint, lenient: true}
}

// setScalar sets v, a string, a boolean or an integer, to the value of n; its type
// may be a named one. What only the Kubernetes tools take is accepted.
func setScalar(n *yaml.Node, v reflect.Value) finding {
	if n.Kind != yaml.ScalarNode {
		return notScalar(n, v)
	}

	switch v.Kind() {
	case reflect.String:
		return setText(n, v)
	case reflect.Bool:
		return setBoolean(n, v)
	}
	return setNumber(n, v)
}

func notScalar(n *yaml.Node, v reflect.Value) finding {
	switch v.Kind() {
	case reflect.String:
		return refused("is "+describe(n)+", want a string", "put it in quotes")
	case reflect.Bool:
		return refused("is "+describe(n)+", want true or false",
			"write true or false, without quotes")
	}
	return refused("is "+describe(n)+", want a whole number", "write digits, without quotes")
}

func setText(n *yaml.Node, v reflect.Value) finding {
	value, ok := resolve(n)
	text, isText := asText(value)
	switch {
	case n.ShortTag() == "!!str":
		v.SetString(n.Value)
		return finding{}
	case ok && isText:
		v.SetString(text)
		return accepted("is "+describe(n)+", want a string", "put it in quotes")
	}
	return refused("is "+describe(n)+", want a string", "put it in quotes")
}

func setBoolean(n *yaml.Node, v reflect.Value) finding {
	value, ok := resolve(n)
	truth, isBool := value.(bool)
	v.SetBool(ok && truth)

	const hint = "write true or false, without quotes"
	switch {
	case !ok || !isBool:
		return refused("is "+describe(n)+", want true or false", hint)
	case n.ShortTag() != "!!bool" || !isTrueOrFalse(n.Value):
		return accepted("is "+describe(n)+", want true or false", hint)
	}
	return finding{}
}

func isTrueOrFalse(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

// notOctal matches what is meant to be octal and has a digit that is not. To
// YAML it is a floating-point number.
var notOctal = regexp.MustCompile(`^0o?[0-7]*[89][0-9]*$`)

func setNumber(n *yaml.Node, v reflect.Value) finding {
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
		return setInteger(n, v)
	}

	whole, isWhole := asWhole(value)
	if !ok || !isWhole || !setWhole(v, whole) {
		return refused(problem, hint)
	}
	return accepted(problem, hint)
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

// setInteger takes a number in any base of YAML: 420, 0644, 0o644, 0x1a4.
func setInteger(n *yaml.Node, v reflect.Value) finding {
	value, _ := resolve(n)
	if whole, ok := asWhole(value); !ok || !setWhole(v, whole) {
		return refused("the number "+Quote(n.Value)+" is out of range", "")
	}
	return finding{}
}

// setTime takes an RFC 3339 time, in quotes or not.
func setTime(n *yaml.Node, v reflect.Value) finding {
	parsed, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return refused("is "+describe(n)+", want a time",
			"write it as 2026-08-01T00:00:00Z (RFC 3339)")
	}
	v.Set(reflect.ValueOf(parsed))
	return finding{}
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
