package events_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/suite/events"
)

// open reads a recorded stream of testdata; record.sh there makes them.
func open(t *testing.T, name string) *events.Log {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	log, err := events.Read(f)
	if err != nil {
		t.Fatal(err)
	}

	return log
}

func TestFailuresOfRecordedRuns(t *testing.T) {
	const tiny = "example.com/tiny/"
	for _, row := range []struct {
		stream string
		counts events.Counts
		want   []events.Failure
	}{
		{
			stream: "passes.jsonl",
			counts: events.Counts{Passed: 3, Skipped: 1},
		},
		{
			stream: "cached.jsonl",
			counts: events.Counts{Passed: 3, Skipped: 1},
		},
		{stream: "empty.jsonl"},
		{
			stream: "fails.jsonl",
			counts: events.Counts{Passed: 2},
			want: []events.Failure{
				{
					Package: tiny + "fails",
					Test:    "TestFails",
					Line:    "fails_test.go:9: have 1",
				},
				{
					Package: tiny + "fails",
					Test:    "TestRows/bad",
					Line:    "fails_test.go:16: a bad row",
				},
			},
		},
		{
			stream: "panics.jsonl",
			counts: events.Counts{Passed: 1},
			want: []events.Failure{{
				Package: tiny + "panics",
				Test:    "TestPanics",
				Line:    "panic: assignment to entry in nil map [recovered, repanicked]",
				Trace: []string{
					"testing.tRunner.func1.2({0x55a7a0, 0x6c8c10})",
					"\ttesting/testing.go:1974 +0x232",
					"testing.tRunner.func1()",
					"\ttesting/testing.go:1977 +0x349",
					"panic({0x55a7a0?, 0x6c8c10?})",
					"\truntime/panic.go:860 +0x13a",
					"example.com/tiny/panics.TestPanics(0x37e58add4488?)",
					"\texample.com/tiny/panics/panics_test.go:9 +0x28",
					"testing.tRunner(0x37e58add4488, 0x592e48)",
					"\ttesting/testing.go:2036 +0xea",
					"created by testing.(*T).Run in goroutine 1",
					"\ttesting/testing.go:2101 +0x4c5",
				},
			}},
		},
		{
			stream: "hangs.jsonl",
			counts: events.Counts{Passed: 1},
			want: []events.Failure{{
				Package: tiny + "hangs",
				Test:    "TestHangs/inside",
				Line:    "panic: test timed out after 1s",
			}},
		},
		{
			stream: "nobuild.jsonl",
			want: []events.Failure{{
				Package: tiny + "nobuild",
				Line:    "nobuild/nobuild_test.go:6:2: undefined: undefined",
			}},
		},
		{
			stream: "exits.jsonl",
			counts: events.Counts{Passed: 1},
			want: []events.Failure{{
				Package: tiny + "exits",
				Line:    "the fixture did not stop",
			}},
		},
		{
			stream: "unsteady.jsonl",
			counts: events.Counts{Passed: 3},
			want: []events.Failure{{
				Package:  tiny + "unsteady",
				Test:     "TestFirstTime/row",
				Line:     "unsteady_test.go:15: context deadline exceeded",
				Unsteady: true,
			}},
		},
	} {
		t.Run(row.stream, func(t *testing.T) {
			log := open(t, row.stream)
			have := log.Failures(func(pkg, at string) bool {
				return pkg == tiny+"fails" && at == "fails_test.go:8"
			})
			if diff := cmp.Diff(row.want, have); diff != "" {
				t.Errorf("failures (-want +have):\n%s", diff)
			}
			if diff := cmp.Diff(row.counts, log.Counts()); diff != "" {
				t.Errorf("counts (-want +have):\n%s", diff)
			}
		})
	}
}

func TestATestThatIsKilledIsNamed(t *testing.T) {
	const stream = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/b"}
{"Action":"output","Package":"p","Output":"signal: killed\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p","Elapsed":1}
{"Action":"out`
	log, err := events.Read(strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}

	have := log.Failures(func(string, string) bool { return false })
	want := []events.Failure{{
		Package: "p",
		Line:    "signal: killed (while these ran: TestA/b)",
	}}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

func TestRunsOfARepeatedTest(t *testing.T) {
	log := open(t, "repeated.jsonl")
	p := log.Packages[0]
	if p.Runs[0].Seed == "" {
		t.Error("no seed")
	}
	for _, test := range p.Tests {
		if len(test.Runs) != 3 {
			t.Errorf("%s: %d runs, want 3", test.Name, len(test.Runs))
		}
	}
}

func TestSlowest(t *testing.T) {
	packages, tests := open(t, "hangs.jsonl").Timings()
	if len(packages) != 1 || packages[0].Took < time.Second || len(tests) != 2 {
		t.Errorf("packages %v, tests %v", packages, tests)
	}

	packages, tests = open(t, "cached.jsonl").Timings()
	if len(packages)+len(tests) != 0 {
		t.Errorf("cached: packages %v, tests %v, want none", packages, tests)
	}

	const waits = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"attr","Package":"p","Test":"TestA","Key":"waited","Value":"1m20s"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":90}
{"Action":"pass","Package":"p","Elapsed":91}`
	log, err := events.Read(strings.NewReader(waits))
	if err != nil {
		t.Fatal(err)
	}
	_, tests = log.Timings()
	if len(tests) != 1 || tests[0].Took != 10*time.Second {
		t.Errorf("of 90 s that it waited 80 for others: %v", tests)
	}

	have := events.Slowest([]events.Timing{
		{Test: "short", Took: 1},
		{Test: "long", Took: 3},
		{Test: "middle", Took: 2},
	}, 2)
	if have[0].Test != "long" || have[1].Test != "middle" {
		t.Errorf("slowest: %v", have)
	}
}
