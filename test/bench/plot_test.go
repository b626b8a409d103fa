package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const measured = `{"name":"config/a","value":5,"unit":"ms","goal":10,"met":true,"n":3,"min":4,"max":6,"conditions":""}
{"name":"config/b","value":30,"unit":"ms","goal":10,"met":false,"n":1,"min":30,"max":30,"conditions":""}
{"name":"boot/stock","value":29,"unit":"s","goal":1e9,"met":true,"n":1,"min":29,"max":29,"conditions":""}
{"name":"config/idle","value":0,"unit":"B","goal":0,"met":true,"n":1,"min":0,"max":0,"conditions":""}
`

func TestPlotShowsEachResultWithAGoal(t *testing.T) {
	results, err := readResults(strings.NewReader(measured))
	if err != nil {
		t.Fatal(err)
	}

	drawn := plot("One change", chosen(results, []string{"config", "boot"}))

	texts, widths := read(t, drawn)
	want := []string{"One change", "goal", "config/a", "5 of 10 ms", "config/b", "30 of 10 ms"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts (-want +have)\n%s", diff)
	}

	// The picture itself, half of the goal, and what misses it, up to the side.
	if want := []string{"900", "185.0", "484.0"}; !slices.Equal(widths, want) {
		t.Errorf("bars %v, want %v", widths, want)
	}
}

// read returns the texts and the widths of the rectangles of an SVG.
func read(t *testing.T, drawn []byte) (texts, widths []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(drawn)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, widths
		}

		if err != nil {
			t.Fatal(err)
		}

		switch token := token.(type) {
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		case xml.StartElement:
			for _, a := range token.Attr {
				if token.Name.Local == "rect" && a.Name.Local == "width" {
					widths = append(widths, a.Value)
				}
			}
		}
	}
}

func TestResultsOfAnEarlierRunStay(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run.jsonl")
	for _, text := range []string{
		measured,
		`{"name":"config/a","value":7,"unit":"ms","goal":10,"met":true,"n":1,"min":7,"max":7,"conditions":""}` + "\n",
	} {
		if err := os.WriteFile(run, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := drawPlots(dir, run); err != nil {
			t.Fatal(err)
		}
	}

	change, err := os.ReadFile(filepath.Join(dir, "change.svg"))
	if err != nil {
		t.Fatal(err)
	}

	texts, _ := read(t, change)
	want := []string{"One change", "goal", "config/a", "7 of 10 ms", "config/b", "30 of 10 ms"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts (-want +have)\n%s", diff)
	}
}

func TestPlotsAreThoseOfTheResults(t *testing.T) {
	file, err := os.Open("../../" + plotDirectory + "/results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	results, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}

	for _, p := range plots {
		have, err := os.ReadFile(filepath.Join("../..", plotDirectory, p.file))
		if err != nil {
			t.Fatal(err)
		}
		if want := plot(p.title, chosen(results, p.parts)); string(have) != string(want) {
			t.Errorf("%s is stale\nhint: go run ./test/bench -plot", p.file)
		}
	}
}

// TestEveryResultHasAPlot finds the names in the code of the benchmarks.
func TestEveryResultHasAPlot(t *testing.T) {
	var parts []string
	for _, p := range plots {
		parts = append(parts, p.parts...)
	}

	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	name := regexp.MustCompile(`result\("([a-z]+)/`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range name.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(parts, match[1]) {
				t.Errorf("%s: results %s/ have no plot", file, match[1])
			}
		}
	}
}

func TestCurvesShowDoneAndAway(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.json")
	if err := drawRollouts(dir, file); err != nil {
		t.Fatalf("without curves: %v", err)
	}
	if err := os.WriteFile(file, []byte(`[{"name": "system", "nodes": 100, "most": 5,
		"seconds": 30, "done": [0, 50, 100], "away": [5, 5, 0]}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawRollouts(dir, file); err != nil {
		t.Fatal(err)
	}

	drawn, err := os.ReadFile(filepath.Join(dir, "rollout.svg"))
	if err != nil {
		t.Fatal(err)
	}
	texts, _ := read(t, drawn)
	want := []string{"Another system", "100", "done", "5", "away", "0", "1 min"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts (-want +have)\n%s", diff)
	}
	// All are done at the right side, and 5 of 5 away until the middle.
	for _, part := range []string{"L472.0 85.0 L884.0 40.0 V130", "L60.0 138.0 L472.0 138.0 L884.0 188.0 V188"} {
		if !strings.Contains(string(drawn), part) {
			t.Errorf("no %q in\n%s", part, drawn)
		}
	}
}

func TestTheCurvesOfTheDocumentsAreDrawn(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", plotDirectory, curvesFile))
	if err != nil {
		t.Fatal(err)
	}
	var curves []curve
	if err := json.Unmarshal(text, &curves); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join("../..", plotDirectory, "rollout.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if string(plotCurves(curves)) != string(have) {
		t.Error("rollout.svg is stale\nhint: go run ./test/bench -plot")
	}
}
