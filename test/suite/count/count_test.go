package count_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/suite/count"
	"github.com/loam-os/loam/test/suite/events"
)

const module = "example.com/tiny"

func TestPlan(t *testing.T) {
	all := []count.Package{
		{
			Path:    module + "/test/node",
			Imports: []string{module + "/test/container"},
		},
		{
			Path:    module + "/agent",
			Imports: []string{"os", module + "/test/cluster/testcluster"},
		},
		{
			Path:    module + "/hint",
			Imports: []string{"errors"},
		},
	}
	hint := count.Job{
		Package:  module + "/hint",
		N:        50,
		Timeout:  5 * time.Hour,
		Parallel: 4,
	}
	agent := count.Job{
		Package:  module + "/agent",
		N:        20,
		Timeout:  200 * time.Minute,
		Parallel: 4,
	}
	node := count.Job{
		Package:  module + "/test/node",
		N:        5,
		Timeout:  5 * time.Hour,
		Parallel: 2,
	}
	twice := count.Job{
		Package:  module + "/agent",
		N:        2,
		Timeout:  20 * time.Minute,
		Parallel: 4,
	}

	for _, row := range []struct {
		name string
		only []string
		n    int
		want []count.Job
	}{
		{name: "all", want: []count.Job{hint, agent, node}},
		{
			name: "some stages",
			only: []string{"machines", "packages"},
			want: []count.Job{hint, node},
		},
		{
			name: "another number",
			only: []string{"systemd"},
			n:    2,
			want: []count.Job{twice},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			have, err := count.Plan(all, row.only, row.n)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}

	_, err := count.Plan(all, []string{"style"}, 0)
	if err == nil {
		t.Error("a stage that does not exist is not an error")
	}
}

func TestCommand(t *testing.T) {
	job := count.Job{
		Package:  "p",
		N:        5,
		Timeout:  time.Hour,
		Parallel: 2,
		Short:    true,
	}
	const want = "go test -json -vet=off -shuffle=on -count=5 -timeout=1h0m0s -parallel=2 -short -run=^TestA$ p"
	if diff := cmp.Diff(want, strings.Join(job.Command("^TestA$"), " ")); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	table := count.Table{
		Module: module,
		IsLog:  func(string, string) bool { return false },
	}
	for _, name := range []string{"passes", "empty", "unsteady", "hangs", "nobuild"} {
		f, err := os.Open(filepath.Join("../events/testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		log, err := events.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		table.Add(log)
	}

	const want = `package   test               runs  failures  seed  first failure
passes    all                2     0         -     -
unsteady  all                3     1         -     -
unsteady  TestFirstTime/row  2     1         -     unsteady_test.go:15: context deadline exceeded
hangs     all                2     1         -     -
hangs     TestHangs/inside   1     1         -     panic: test timed out after 1s
nobuild   all                0     1         -     nobuild/nobuild_test.go:6:2: undefined: undefined
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
	if table.Failures() != 3 {
		t.Errorf("%d failures, want 3", table.Failures())
	}
}

func TestSeedOfARun(t *testing.T) {
	f, err := os.Open("../events/testdata/repeated.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := events.Read(f)
	if err != nil {
		t.Fatal(err)
	}

	table := count.Table{Module: module}
	rows := table.Add(log)
	if len(rows) != 1 || rows[0].Runs != 6 || rows[0].Seed == "" {
		t.Errorf("rows: %+v", rows)
	}
}
