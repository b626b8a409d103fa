package events

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Counts are numbers of tests and subtests.
type Counts struct {
	Passed  int
	Skipped int
}

// Counts returns how many tests passed or were skipped when they last ran.
func (l *Log) Counts() Counts {
	var counts Counts
	for _, p := range l.Packages {
		for _, test := range p.Tests {
			switch test.Runs[len(test.Runs)-1].Outcome {
			case Passed:
				counts.Passed++
			case Skipped:
				counts.Skipped++
			}
		}
	}

	return counts
}

// Timing is how long a package or a test of it took.
type Timing struct {
	Package string
	// Test is empty for a package.
	Test string
	Took time.Duration
}

// Timings returns how long the first run of each package and of each test took,
// without subtests and without what came from the cache.
func (l *Log) Timings() (packages, tests []Timing) {
	for _, p := range l.Packages {
		if len(p.Runs) == 0 || p.Runs[0].Cached {
			continue
		}
		packages = append(packages, Timing{Package: p.Name, Took: p.Runs[0].Elapsed})

		for _, test := range p.Tests {
			if !strings.Contains(test.Name, "/") {
				tests = append(tests, Timing{
					Package: p.Name,
					Test:    test.Name,
					Took:    test.Runs[0].Elapsed,
				})
			}
		}
	}

	return packages, tests
}

// Slowest returns the n that took the longest, the longest first.
func Slowest(timings []Timing, n int) []Timing {
	sorted := slices.SortedStableFunc(slices.Values(timings), func(a, b Timing) int {
		return cmp.Compare(b.Took, a.Took)
	})

	return sorted[:min(n, len(sorted))]
}
