package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// Result is one line of results.jsonl. Names are stable from run to run.
type Result struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // median
	Unit  string  `json:"unit"`

	// Goal is the largest good value. A figure of another program has none, and
	// is met.
	Goal       float64 `json:"goal"`
	NoGoal     bool    `json:"noGoal,omitempty"`
	Met        bool    `json:"met"`
	N          int     `json:"n"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Limit      string  `json:"limit,omitempty"`
	Conditions string  `json:"conditions"`
}

// result is the median of values.
func result(name, unit string, goal float64, limit, conditions string, values ...float64) Result {
	sorted := slices.Sorted(slices.Values(values))
	median := sorted[len(sorted)/2]
	return Result{
		Name:       name,
		Value:      median,
		Unit:       unit,
		Goal:       goal,
		Met:        median <= goal,
		N:          len(sorted),
		Min:        sorted[0],
		Max:        sorted[len(sorted)-1],
		Limit:      limit,
		Conditions: conditions,
	}
}

// report collects results: a line in the file as soon as one is known, a table
// at the end.
type report struct {
	file    *os.File
	results []Result
}

func (r *report) add(results ...Result) error {
	for _, res := range results {
		text, err := json.Marshal(res)
		if err != nil {
			return fmt.Errorf("encode %s: %w", res.Name, err)
		}
		if _, err := r.file.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	r.results = append(r.results, results...)
	return nil
}

func (r *report) table(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "figure\tmedian\tmin\tmax\tn\tgoal\t\t")

	for _, res := range r.results {
		mark := ""
		goal := fmt.Sprintf("%.4g", res.Goal)
		if res.NoGoal {
			goal = "-"
		}
		if !res.Met {
			mark = "MISSED"
		}

		fmt.Fprintf(w, "%s\t%.4g %s\t%.4g\t%.4g\t%d\t%s\t%s\t\n",
			res.Name, res.Value, res.Unit, res.Min, res.Max, res.N, goal, mark)
	}

	_ = w.Flush()
}
