package osc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/osc"
)

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	const units = "  units:\n  - name: a.servic\n  - name: b.servic\n"
	var more []string
	for i := range 100 {
		more = append(more, fmt.Sprintf("%d spec.units[%d].name", 5+i, i))
	}

	more = append(more, "0 document")
	tests := []struct {
		name, text string
		want       []string
	}{
		{
			"an unknown field",
			head + units + "  unknown: 1\n",
			[]string{"5 spec.units[0].name", "6 spec.units[1].name", "7 spec.unknown"},
		},
		{"an unknown field deep down", head + "  files:\n  - path: a\n" +
			"    mode: 1\n" + units,
			[]string{
				"5 spec.files[0].content", "5 spec.files[0].path", "6 spec.files[0].mode",
				"8 spec.units[0].name", "9 spec.units[1].name",
			}},
		{
			"an unknown field that begins like another",
			head + units + "  unit: []\n",
			[]string{"5 spec.units[0].name", "6 spec.units[1].name", "7 spec.unit"},
		},
		{
			"a value of another type says nothing more of itself",
			head + "  files: 1\n" + units,
			[]string{"4 spec.files", "6 spec.units[0].name", "7 spec.units[1].name"},
		},
		{"what is no such document at all", "apiVersion: v1\nkind: Pod\n" +
			"spec:\n" + units, []string{"1 apiVersion", "2 kind"}},
		{"more than are shown", head + "  units:\n" + strings.Repeat("  - {}\n", 102), more},
		{"nothing wrong", head + "  units:\n  - name: a.service\n", nil},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked, wrong := osc.Decode("c", []byte(tt.text))
			err := osc.Check(wrong, asked, osc.Env{})
			var all document.Errors
			if err != nil && !errors.As(err, &all) {
				t.Fatal(err)
			}

			var got []string
			for _, e := range all {
				got = append(got, fmt.Sprint(e.Line, " ", e.Path))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}
