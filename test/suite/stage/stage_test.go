package stage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/suite/stage"
)

func namesOf(groups []stage.Group) string {
	var all []string
	for _, group := range groups {
		var names []string
		for _, s := range group {
			names = append(names, s.Name)
		}
		all = append(all, strings.Join(names, "+"))
	}

	return strings.Join(all, " ")
}

func TestSelect(t *testing.T) {
	groups := []stage.Group{
		{{Name: "style"}, {Name: "build", Full: true}},
		{{Name: "long", Full: true}},
		{{Name: "packages", Needs: []string{"build", "long"}}},
		{{Name: "machines", Needs: []string{"style"}}},
	}
	for _, row := range []struct {
		name  string
		short bool
		only  []string
		want  string
	}{
		{name: "all", want: "style+build long packages machines"},
		{name: "the short suite", short: true, want: "style packages machines"},
		{name: "one of a group", only: []string{"build"}, want: "build"},
		{name: "what a stage needs", only: []string{"packages"}, want: "build long packages"},
		{
			name:  "what a stage needs in the short suite",
			short: true,
			only:  []string{"machines", "packages"},
			want:  "style packages machines",
		},
		{
			name:  "a named stage is in the short suite, too",
			short: true,
			only:  []string{"packages", "long"},
			want:  "long packages",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			have, err := stage.Select(groups, row.short, row.only)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, namesOf(have)); diff != "" {
				t.Error(diff)
			}
		})
	}

	_, err := stage.Select(groups, false, []string{"machine"})
	const want = `no stage "machine": the stages are style, build, long, packages, machines`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestStagesNeedWhatRanBefore(t *testing.T) {
	var before []string
	for _, group := range stage.Suite() {
		for _, s := range group {
			for _, need := range s.Needs {
				if !slices.Contains(before, need) {
					t.Errorf("%s needs %s, which is not before it", s.Name, need)
				}
			}
		}
		var inGroup []string
		for _, s := range group {
			for _, name := range s.After {
				if !slices.Contains(inGroup, name) {
					t.Errorf("%s starts after %s, which is not before it in its group", s.Name, name)
				}
			}
			inGroup = append(inGroup, s.Name)
			before = append(before, s.Name)
			if s.Name == "machines" && len(group) > 1 {
				t.Errorf("%s run beside other stages", s.Name)
			}
		}
	}
}

func TestMissing(t *testing.T) {
	s := stage.Stage{Needs: []string{"a", "b"}}
	if have := s.Missing([]string{"style", "b"}); have != "b" {
		t.Errorf("missing %q, want b", have)
	}
	if have := s.Missing([]string{"style"}); have != "" {
		t.Errorf("missing %q, want none", have)
	}
}

func TestTestCommand(t *testing.T) {
	s := stage.Stage{
		Format:  "testname",
		Except:  "/test/node",
		Waiting: []string{"/w"},
		Judges:  true,
		Flags:   []string{"-p", "3"},

		ShortFlags: []string{"-parallel", "3"},
	}
	have := s.TestCommand(stage.Tests{
		Judges:   "/tree/env",
		Modfile:  "/tree/go.mod",
		Events:   "/tree/events",
		Packages: s.Keep([]string{"l/a", "l/w", "l/test/node", "l/test/node/b"}),
		Short:    true,
	})

	const want = `sh -c . "$0" && exec "$@" /tree/env ` +
		"go tool -modfile=/tree/go.mod gotestsum --format testname --format-icons text " +
		"--hide-summary skipped --jsonfile /tree/events --rerun-fails=1 " +
		"--rerun-fails-max-failures=3 --rerun-fails-run-root-test " +
		"--packages=l/w l/test/node/b l/a -- -p 3 -short -parallel 3"
	if diff := cmp.Diff(want, strings.Join(have, " ")); diff != "" {
		t.Error(diff)
	}
}
