package document

import (
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// words are the words of YAML 1.1 that are not text, which the Kubernetes tools
// read.
var words = map[string]any{
	"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true,
	"true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false,
	"false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
	".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
	".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1),
	"+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
	"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
}

var floatNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// resolve returns the value of a scalar in YAML 1.1 as the Kubernetes tools read
// it: nil, a bool, an int64, a uint64 beyond that, a float64 or a string. ok is
// false if they refuse it.
func resolve(n *yaml.Node) (value any, ok bool) {
	isPlain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|
		yaml.FoldedStyle) == 0
	if n.Style&yaml.TaggedStyle == 0 {
		if isPlain {
			return resolvePlain(n.Value), true
		}
		return n.Value, true
	}

	value = resolvePlain(n.Value)
	switch n.ShortTag() {
	case "!!bool":
		_, ok = value.(bool)
	case "!!null":
		ok = value == nil
	case "!!int":
		ok = isInteger(value)
	case "!!float":
		_, isFloat := value.(float64)
		ok = isFloat || isInteger(value)
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(n.Value)
		return string(data), err == nil
	default:
		return n.Value, true
	}
	return value, ok
}

func isInteger(value any) bool {
	switch value.(type) {
	case int64, uint64:
		return true
	}
	return false
}

// resolvePlain is resolve for text without quotes and tag. Dates stay text.
func resolvePlain(text string) any {
	if value, ok := words[text]; ok {
		return value
	}
	if !strings.Contains("+-.0123456789", text[:1]) {
		return text
	}

	digits := strings.ReplaceAll(text, "_", "")
	if text[0] != '.' {
		if number, err := strconv.ParseInt(digits, 0, 64); err == nil {
			return number
		}
		if number, err := strconv.ParseUint(digits, 0, 64); err == nil {
			return number
		}
	}
	if floatNumber.MatchString(digits) && (text[0] != '.' || digits == text) {
		if number, err := strconv.ParseFloat(digits, 64); err == nil {
			return number
		}
	}
	return text
}

// asText returns the text of a value for a field that wants text. ok is false if
// JSON does not know the value.
func asText(value any) (text string, ok bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case int64:
		return strconv.FormatInt(value, 10), true
	case uint64:
		return strconv.FormatUint(value, 10), true
	case float64:
		// With the precision of the Kubernetes tools.
		return strconv.FormatFloat(value, 'g', -1, 32), isFinite(value)
	}
	return "", false
}

func isFinite(value float64) bool { return !math.IsInf(value, 0) && !math.IsNaN(value) }

// pair is one field of a mapping.
type pair struct {
	key, value *yaml.Node
	// merged is set if it comes from a merge key.
	merged bool
}

// flatten returns the fields of a mapping, with those of its merge keys in their
// place, as the Kubernetes tools read them: of duplicates the later one counts.
// It reports what cannot be merged.
func (d *decoder) flatten(n *yaml.Node, path string, depth int) []pair {
	pairs := make([]pair, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && d.nodes < maxNodes; i += 2 {
		key := n.Content[i]
		value := n.Content[i+1]
		if key.ShortTag() != "!!merge" {
			pairs = append(pairs, pair{key: key, value: value})
			continue
		}

		d.warn(key, orWhole(path), "has the merge key <<", "write the fields out")
		for _, from := range d.merged(value, path) {
			from, ok := d.enter(from, path, depth+1)
			if !ok {
				return pairs
			}
			for _, one := range d.flatten(from, path, depth+1) {
				d.nodes++
				one.merged = true
				pairs = append(pairs, one)
			}
		}
	}
	return pairs
}

// merged returns the mappings of a merge key, the one that counts most last.
func (d *decoder) merged(value *yaml.Node, path string) []*yaml.Node {
	mapping := func(n *yaml.Node) *yaml.Node {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		return n
	}

	list := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		list = slices.Clone(value.Content)
		slices.Reverse(list)
	}
	for i := range list {
		list[i] = mapping(list[i])
		if list[i].Kind != yaml.MappingNode {
			d.wrong(value, orWhole(path), "the merge key << has a value that is not fields",
				"write the fields out, or use an alias for a whole value")
			return nil
		}
	}
	return list
}
