package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseTakesNoFiguresOfALog: a log says what the next part has done so far.
func TestParseTakesNoFiguresOfALog(t *testing.T) {
	const text = `=== RUN   TestALargeFleet
    large_test.go:52: one: 5 polls a node
BenchmarkLargeFleet/one 1 6.50 min 11.00 polls
    large_test.go:70: two: 60.00 polls a node
BenchmarkLargeFleet/two
etcd is here
         1         42.00 min        60.00 polls
`
	want := map[string]map[string]float64{
		"one": {"min": 6.5, "polls": 11},
		"two": {"min": 42, "polls": 60},
	}
	got := benchmark{name: "LargeFleet"}.parse([]byte(text))
	for _, units := range got {
		delete(units, "6.50") // A number of iterations has no unit.
		delete(units, "42.00")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
