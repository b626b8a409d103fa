package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// plotDirectory has the plots of docs/figures.md, and the results that they
// show.
const plotDirectory = "docs/figures"

// plots are the groups of results that have a plot each, by the first part of
// their names.
var plots = []struct {
	file, title string
	parts       []string
}{
	{
		"machine.svg",
		"Image and machine",
		[]string{"image", "build", "size", "boot", "agent", "live", "encrypt"},
	},
	{
		"change.svg",
		"One change",
		[]string{"config", "gardener", "cluster", "change", "start", "rollout"},
	},
	{"upgrade.svg", "Upgrade and installation", []string{"upgrade", "flash", "install"}},
	{
		"own-cluster.svg",
		"A machine that is a cluster",
		[]string{"control-plane", "kubernetes-bundle"},
	},
}

// highGoal is more than any goal: a figure with it is for comparison only.
const highGoal = 1e8

// readResults reads results.jsonl. Of results with the same name the last
// counts.
func readResults(in io.Reader) ([]Result, error) {
	var results []Result
	decoder := json.NewDecoder(in)

	for {
		var r Result
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return results, nil
		} else if err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
		same := slices.IndexFunc(results, func(have Result) bool { return have.Name == r.Name })
		if same >= 0 {
			results[same] = r
		} else {
			results = append(results, r)
		}
	}
}

// drawPlots draws the results in file into dir. Results that dir has, and file
// has not, stay: a run may have measured only a part.
func drawPlots(dir, file string) error {
	var text []byte
	kept := filepath.Join(dir, "results.jsonl")
	for _, name := range []string{kept, file} {
		part, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		text = append(text, part...)
	}

	results, err := readResults(bytes.NewReader(text))
	if err != nil {
		return err
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)

	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}

	if err := os.WriteFile(kept, lines.Bytes(), 0o644); err != nil {
		return err
	}

	for _, p := range plots {
		err := os.WriteFile(filepath.Join(dir, p.file),
			plot(p.title, chosen(results, p.parts)), 0o644)
		if err != nil {
			return err
		}
	}

	return nil
}

// chosen returns the results of a plot: those with a goal above zero.
func chosen(results []Result, parts []string) []Result {
	var found []Result
	for _, r := range results {
		part, _, _ := strings.Cut(r.Name, "/")
		if slices.Contains(parts, part) && !r.NoGoal && r.Goal > 0 && r.Goal < highGoal {
			found = append(found, r)
		}
	}
	return found
}

// Sizes of a plot, in pixels.
const (
	plotWidth  = 900
	plotLeft   = 270 // where the bars begin
	plotGoal   = 640 // where a bar ends that just meets its goal
	plotRow    = 24
	plotMargin = 16
	plotHead   = 56
)

// plot draws each result as a bar with its range, as a part of its goal. Bars
// that are longer than the picture end at its side.
func plot(title string, results []Result) []byte {
	height := plotHead + plotRow*len(results) + plotMargin
	var b bytes.Buffer
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
			`font-family="system-ui, sans-serif" font-size="12" fill="#24292f">`+"\n",
		plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#ffffff"/>`+"\n", plotWidth, height)
	label(&b, plotMargin, plotMargin+10, "start", `font-size="15" font-weight="600"`, title)
	label(&b, plotGoal, plotMargin+26, "middle", "", "goal")

	for i, r := range results {
		top := plotHead + plotRow*i
		fill := "#4c8f5b"
		if !r.Met {
			fill = "#c4622d"
		}

		label(&b, plotLeft-10, top+14, "end", "", r.Name)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="12" fill="%s"/>`+"\n", plotLeft,
			top+4, position(r.Value, r.Goal)-plotLeft, fill)

		if r.Max > r.Min {
			fmt.Fprintf(&b, `<path d="M%.1f %d h%.1f" stroke="#24292f"/>`+"\n",
				position(r.Min, r.Goal), top+10, position(r.Max, r.Goal)-position(r.Min, r.Goal))
		}

		label(&b, plotWidth-plotMargin, top+14, "end", "",
			number(r.Value)+" of "+number(r.Goal)+" "+r.Unit)
	}

	fmt.Fprintf(&b, `<path d="M%d %d V%d" stroke="#24292f" stroke-dasharray="3 3"/>`+"\n", plotGoal,
		plotHead-8, height-plotMargin)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// number writes a value with three digits, large ones without a fraction.
func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// position is where a value is in the picture, with that goal.
func position(value, goal float64) float64 {
	const widest = plotWidth - plotMargin - 130
	return math.Min(plotLeft+(plotGoal-plotLeft)*value/goal, widest)
}

func label(b *bytes.Buffer, x, y int, anchor, more, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" %s>`, x, y, anchor, more)
	_ = xml.EscapeText(b, []byte(text)) // A buffer takes all.
	b.WriteString("</text>\n")
}
