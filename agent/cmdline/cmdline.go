// Package cmdline parses the kernel command line as the kernel does (next_arg
// in lib/cmdline.c): parameters are separated by white space, and double quotes
// keep white space within one.
package cmdline

import "strings"

// Cmdline has the parameters in their order.
type Cmdline []Param

// Param is KEY or KEY=VALUE.
type Param struct {
	Key   string
	Value string
	// HasValue distinguishes KEY= from KEY.
	HasValue bool
}

// Parse splits the text of /proc/cmdline. Everything after -- is for init and
// dropped. Every text is valid, so there is no error.
func Parse(text string) Cmdline {
	var parsed Cmdline
	for {
		text = strings.TrimLeft(text, space)
		if text == "" {
			return parsed
		}

		end := wordEnd(text)
		param := parseWord(text[:end])
		if param.Key == "--" && !param.HasValue {
			return parsed
		}

		parsed = append(parsed, param)
		text = text[end:]
	}
}

// Get returns the value of the last parameter with that key, which takes
// precedence. As in the kernel, - and _ are the same in a key.
func (c Cmdline) Get(key string) (value string, ok bool) {
	if values := c.List(key); len(values) > 0 {
		return values[len(values)-1], true
	}
	return "", false
}

// List returns the value of each parameter with that key; "" if it has none.
func (c Cmdline) List(key string) []string {
	var values []string
	for _, param := range c {
		if dashes.Replace(param.Key) == dashes.Replace(key) {
			values = append(values, param.Value)
		}
	}
	return values
}

// space reports whether the kernel's isspace is true for an ASCII character.
const space = " \t\n\v\f\r"

var dashes = strings.NewReplacer("-", "_")

// wordEnd returns the length of the parameter that text begins with.
func wordEnd(text string) int {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(space, text[i]) >= 0:
			return i
		}
	}
	return len(text)
}

// parseWord removes the quotes around a parameter or around its value; other
// quotes stay.
func parseWord(word string) Param {
	whole := strings.HasPrefix(word, `"`)
	if whole {
		word = word[1:]
	}

	// An = at the start is part of the key.
	equals := strings.IndexByte(word, '=')
	if equals <= 0 {
		if whole {
			word = strings.TrimSuffix(word, `"`)
		}
		return Param{Key: word}
	}

	key := word[:equals]
	value := word[equals+1:]
	inner := strings.HasPrefix(value, `"`)
	if inner {
		value = value[1:]
	}

	if whole || inner {
		value = strings.TrimSuffix(value, `"`)
	}

	return Param{Key: key, Value: value, HasValue: true}
}
