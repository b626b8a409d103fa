package metrics_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// line is a sample: a name, labels, a value ("Text-based format" in Prometheus'
// documentation of exposition formats).
var (
	line  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	label = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)`)
)

// linter reads a page of metrics as Prometheus does, and reports what `promtool
// check metrics` reports.
type linter struct {
	t          *testing.T
	help, kind map[string]string
	seen       map[string]bool // name and labels
	current    string
	bucket     float64 // of the previous bucket
}

func lint(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) || !strings.HasSuffix(text, "\n") {
		t.Error("not UTF-8, or no newline at the end")
	}

	l := linter{
		t:    t,
		help: map[string]string{},
		kind: map[string]string{},
		seen: map[string]bool{},
	}

	for text := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if comment, is := strings.CutPrefix(text, "# "); is {
			l.comment(comment)
		} else {
			l.sample(text)
		}
	}
}

func (l *linter) comment(text string) {
	l.t.Helper()
	words := strings.SplitN(text, " ", 3)
	if len(words) != 3 {
		l.t.Errorf("comment %q", text)
		return
	}

	name := words[1]
	is := map[string]map[string]string{"HELP": l.help, "TYPE": l.kind}[words[0]]
	if is == nil || is[name] != "" || words[2] == "" {
		l.t.Errorf("comment %q is wrong, or not the first", text)
		return
	}

	is[name] = words[2]
	l.current = name
	l.bucket = 0

	if words[0] == "TYPE" && (words[2] == "counter") != strings.HasSuffix(name, "_total") {
		l.t.Errorf("%s is a %s: counters, and only they, end with _total", name, words[2])
	}
}

func (l *linter) sample(text string) {
	l.t.Helper()
	parts := line.FindStringSubmatch(text)
	if parts == nil {
		l.t.Errorf("line %q", text)
		return
	}

	name := parts[1]
	labels := l.labels(parts[2])
	value, err := strconv.ParseFloat(parts[3], 64)
	if err != nil || math.IsNaN(value) || value < 0 {
		l.t.Errorf("value of %q: %v", text, err)
	}

	if l.seen[name+parts[2]] {
		l.t.Errorf("%q twice", text)
	}

	l.seen[name+parts[2]] = true
	of := name
	if l.kind[l.current] == "histogram" {
		of = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"),
			"_count")
	}

	if of != l.current || l.help[of] == "" || l.kind[of] == "" {
		l.t.Errorf("%q is not under its HELP and TYPE", text)
	}

	_, isBucket := labels["le"]
	switch {
	case isBucket != strings.HasSuffix(name, "_bucket"):
		l.t.Errorf("%q: le is of buckets", text)
	case isBucket && value < l.bucket, strings.HasSuffix(name, "_count") && value != l.bucket:
		l.t.Errorf("%q after a bucket with %v", text, l.bucket)
	case isBucket:
		l.bucket = value
	}
}

func (l *linter) labels(text string) map[string]string {
	l.t.Helper()
	labels := map[string]string{}
	for text != "" {
		part := label.FindStringSubmatch(text)
		if part == nil {
			l.t.Errorf("labels %q", text)
			return labels
		}
		labels[part[1]] = part[2]
		text = text[len(part[0]):]
	}
	return labels
}
