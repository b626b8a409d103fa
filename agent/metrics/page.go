package metrics

import (
	"strconv"
	"strings"
	"time"
)

// Types of metrics.
const (
	gauge   = "gauge"
	counter = "counter"
)

// page is text in Prometheus' format, one metric after the other.
type page struct {
	strings.Builder
	name string
}

// metric begins a metric; its values follow.
func (p *page) metric(name, kind, help string) {
	p.name = name
	p.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// value adds a value of the metric; labels alternates names and values.
func (p *page) value(v float64, labels ...string) { p.sample(p.name, v, labels...) }

// flag adds 1 or 0 as a value of the metric.
func (p *page) flag(set bool, labels ...string) {
	v := 0.0
	if set {
		v = 1
	}
	p.value(v, labels...)
}

// histogram adds a complete metric.
func (p *page) histogram(name, help string, h Histogram) {
	p.metric(name, "histogram", help)
	sum := 0
	for i, bound := range bounds {
		sum += h.counts[i]
		p.sample(name+"_bucket", float64(sum), "le", number(bound.Seconds()))
	}

	total := sum + h.counts[len(bounds)]
	p.sample(name+"_bucket", float64(total), "le", "+Inf")
	p.sample(name+"_sum", h.sum.Seconds())
	p.sample(name+"_count", float64(total))
}

func (p *page) sample(name string, v float64, labels ...string) {
	p.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		p.WriteString([]string{"{", ","}[min(i, 1)] + labels[i] + `="` + escape(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		p.WriteString("}")
	}
	p.WriteString(" " + number(v) + "\n")
}

// escape makes any text the value of a label.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`,
		`\"`).Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// bounds of the buckets: a change is tried for 10 s and reverted after 3
// minutes; units that start slowly add to either.
var bounds = [...]time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second,
	30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// Histogram counts durations. The zero Histogram is empty. It is copied by
// assignment.
type Histogram struct {
	// counts has the durations up to each bound and above the previous one,
	// then the rest.
	counts [len(bounds) + 1]int
	sum    time.Duration
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += d
}
