package count

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/loam-os/loam/test/suite/events"
)

// Row is a line of the table: a package, or a test of it that failed.
type Row struct {
	Package string
	// Test is empty for a package.
	Test string
	// Runs is how often the test ran, or all tests of the package.
	Runs     int
	Failures int
	// Seed repeats the order of the tests: go test -shuffle=SEED.
	Seed string
	// Line is the first line of the first failure.
	Line string
}

// Table is the table of a census.
type Table struct {
	// Module is the path of the main module, which names are printed without.
	Module string
	// IsLog tells lines that log from lines that fail.
	IsLog events.IsLog

	rows []Row
}

// Add adds the packages of a log, and returns their rows. Packages without
// tests have none.
func (t *Table) Add(log *events.Log) []Row {
	byPackage := map[string][]events.Failure{}
	for _, f := range log.Failures(t.IsLog) {
		byPackage[f.Package] = append(byPackage[f.Package], f)
	}

	var added []Row
	for _, p := range log.Packages {
		rows := t.rowsOf(p, byPackage[p.Name])
		if rows[0].Runs > 0 || rows[0].Failures > 0 {
			added = append(added, rows...)
		}
	}

	t.rows = append(t.rows, added...)
	return added
}

// rowsOf returns the row of a package, then those of its tests that failed.
func (t *Table) rowsOf(p *events.Package, failures []events.Failure) []Row {
	whole := Row{Package: strings.TrimPrefix(p.Name, t.Module+"/")}
	for _, run := range p.Runs {
		whole.Seed = run.Seed
	}

	byTest := map[string]Row{}
	for _, test := range p.Tests {
		row := Row{
			Package: whole.Package,
			Test:    test.Name,
			Runs:    len(test.Runs),
			Seed:    whole.Seed,
		}
		for _, run := range test.Runs {
			if run.Outcome == events.Failed || run.Outcome == events.Unfinished {
				row.Failures++
			}
		}
		byTest[test.Name] = row

		if !strings.Contains(test.Name, "/") {
			whole.Runs += row.Runs
			whole.Failures += row.Failures
		}
	}

	var tests []Row
	for _, f := range failures {
		if f.Test == "" {
			whole.Failures = max(whole.Failures, 1)
			whole.Line = f.Line
			continue
		}
		row := byTest[f.Test]
		row.Line = f.Line
		tests = append(tests, row)
	}

	return append([]Row{whole}, tests...)
}

// Failures returns the number of failures in the table.
func (t *Table) Failures() int {
	sum := 0
	for _, row := range t.rows {
		if row.Test == "" {
			sum += row.Failures
		}
	}

	return sum
}

// String returns the row on one line.
func (r Row) String() string {
	name := strings.TrimSpace(r.Package + " " + r.Test)
	text := fmt.Sprintf("%s: %d runs, %d failures", name, r.Runs, r.Failures)
	if r.Line != "" {
		text += ": " + r.Line
	}

	return text
}

// String returns the table.
func (t *Table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "package\ttest\truns\tfailures\tseed\tfirst failure")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", r.Package, cmp.Or(r.Test, "all"), r.Runs,
			r.Failures, cmp.Or(r.Seed, "-"), cmp.Or(r.Line, "-"))
	}
	w.Flush()

	return b.String()
}
