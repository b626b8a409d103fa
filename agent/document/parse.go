package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the size of the longest document in bytes: 1.5 MiB, the most that
// etcd accepts in a request by default (etcd --max-request-bytes). A Secret
// holds 1 MiB.
const MaxSize = 3 << 19

const yamlHint = "indent with spaces, and quote a value that has a colon or begins with a " +
	"special character"

// parse returns the root node of the only document in text, or nil after
// reporting why it cannot.
func parse(text []byte, report *Report) *yaml.Node {
	if len(text) > MaxSize {
		report.Addf(Whole, "split it, or fetch large content instead of embedding it",
			"is %d bytes, more than %d", len(text), MaxSize)
		return nil
	}

	if at, found := notText(text); found != "" {
		report.addAt(at, Whole, found,
			"the document must be UTF-8 text; put binary content into a base64 field")
		return nil
	}

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		report.Add(Whole, "empty", "begin with apiVersion and kind")
		return nil
	} else if err != nil {
		at, problem := syntaxError(err)
		report.addAt(at, Whole, "not YAML: "+problem, yamlHint)
		return nil
	}

	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		report.warnAt(place(&second), Whole, "a second document begins",
			"keep one document in a file: remove the line ---")
	} else if !errors.Is(err, io.EOF) {
		at, problem := syntaxError(err)
		report.addAt(at, Whole, "not YAML: "+problem, yamlHint)
		return nil
	}

	return first.Content[0]
}

// IsEmpty reports whether text has no value: at most comments and space.
func IsEmpty(text []byte) bool {
	err := yaml.NewDecoder(bytes.NewReader(text)).Decode(new(yaml.Node))
	return errors.Is(err, io.EOF)
}

// syntaxLine matches the beginning of the YAML library's errors.
var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

func syntaxError(err error) (position, string) {
	text := err.Error()
	match := syntaxLine.FindStringSubmatch(text)
	line, convErr := strconv.Atoi(match[1])
	if convErr != nil { // The library names no line for the first one.
		line = 1
	}
	return position{line: line}, strings.TrimPrefix(text, match[0])
}

// notText returns the first bytes that are not allowed in YAML text: invalid
// UTF-8, and control characters other than tab, line feed, carriage return and
// NEL (YAML 1.2, 5.1). It returns "" if all are allowed.
func notText(text []byte) (at position, found string) {
	at = position{line: 1, column: 1}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return at, fmt.Sprintf("byte 0x%02x is not UTF-8", text[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85:
			return at, fmt.Sprintf("holds the control character U+%04X", r)
		}

		i += size
		at.column++

		if r == '\n' {
			at = position{line: at.line + 1, column: 1}
		}
	}

	return position{}, ""
}
