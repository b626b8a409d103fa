package directive_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/osc/directive"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
)

const file = "systemd.txt"

// TestTableIsSystemdsOwn compares the table with what the systemd of the tools
// tree prints, which is of the same version as the image's.
func TestTableIsSystemdsOwn(t *testing.T) {
	tree := tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}
	out, err := tree.Command(t.Context(), nil,
		"/usr/lib/systemd/systemd", "--dump-configuration-items").Output()
	if err != nil {
		t.Fatal(err)
	}

	sections := directive.Parse(string(out))
	var want strings.Builder
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&want, "[%s]\n%s\n", section, strings.Join(sections[section], "\n"))
	}

	if os.Getenv("LOAM_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}

	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), want.String()); diff != "" {
		t.Errorf("%s (-have +want)\n%s\nhint: make golden, with the judges in the environment",
			file, diff)
	}
}

func TestKnown(t *testing.T) {
	for _, test := range []struct {
		section, name string
		known         bool
		nearest       string
	}{
		{"Service", "ExecStart", true, "ExecStart"},
		{"Service", "Restrat", false, "Restart"},
		{"Service", "execstart", false, "ExecStart"},
		{"Service", "X-Mine", true, ""},
		{"Unit", "ExecStart", false, ""},
		{"Install", "WantedBy", true, "WantedBy"},
		{"Slice", "MemoryMax", true, "MemoryMax"},
		{"X-Mine", "Anything", false, ""},
	} {
		known := directive.Known(test.section, test.name)
		if nearest := directive.Nearest(test.section, test.name); known != test.known ||
			nearest != test.nearest {
			t.Errorf("[%s] %s: known %t, nearest %q, want %t, %q",
				test.section, test.name, known, nearest, test.known, test.nearest)
		}
	}
}
